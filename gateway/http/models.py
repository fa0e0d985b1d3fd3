"""GET /v1/models: the model names that a client may send."""

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.answers import caller_of, document
from ostler.gateway.http.errors import missing
from ostler.gateway.model.model_names import Models
from ostler.wire.json import JsonObject


class ModelList:
    """The routes of /v1/models, limited to what the caller's key may use."""

    def __init__(self, models: Models, since: int) -> None:
        self._models = models
        self._since = since

    async def all(self, request: Request) -> Response:
        """Serve GET /v1/models: every name that this key may use."""
        caller = caller_of(request)
        names = [name for name in self._models.listed() if self._allowed(name, caller)]
        return document({"object": "list", "data": [self._entry(name) for name in names]})

    async def one(self, request: Request) -> Response:
        """Serve GET /v1/models/{name}: one model, or a 404."""
        name = request.path_params["name"]
        caller = caller_of(request)
        if self._models.resolve(name) is None or not self._allowed(name, caller):
            offered = self._models.offered(to_all=not caller.models)
            raise missing(f"there is no model {name[:200]!r}; there is: {offered}", "model")
        return document(self._entry(name))

    def _allowed(self, name: str, caller: Caller) -> bool:
        found = self._models.resolve(name)
        return caller.may_use(name) or (found is not None and caller.may_use("/".join(found)))

    def _entry(self, name: str) -> JsonObject:
        found = self._models.resolve(name)
        return {"id": name, "object": "model", "created": self._since, "owned_by": found[0] if found else "ostler"}
