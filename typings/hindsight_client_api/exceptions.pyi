class ApiException(Exception):
    status: int | None

class NotFoundException(ApiException): ...
