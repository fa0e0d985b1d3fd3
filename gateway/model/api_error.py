"""The error that an HTTP route answers with: status, message, and the fields of an OpenAI error object."""

from ostler.gateway.model.errors import GatewayError

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class ApiError(GatewayError):
    """A request that is answered with an error. `http/errors.py` makes the response from it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        hang_up: bool = False,
    ) -> None:
        """If `hang_up`, the connection is closed after the answer."""
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.kind = KINDS.get(status) or ("server_error" if status >= 500 else "invalid_request_error")
        self.retry_after = retry_after
        self.hang_up = hang_up


def bad(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return a 400: a request that cannot be understood, or cannot be fulfilled as it is."""
    return ApiError(400, message, param=param, code=code)
