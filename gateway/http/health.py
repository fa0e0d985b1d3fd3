"""/healthz and /readyz: alive, and able to serve. Cheap, without a key, and revealing nothing else."""

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.answers import document
from ostler.gateway.turns.sessions import Sessions


class HealthRoutes:
    """The routes /healthz and /readyz."""

    def __init__(self, sessions: Sessions, problems: Callable[[], Sequence[str]]) -> None:
        """`problems` returns why the gateway cannot serve now, one sentence each."""
        self._sessions = sessions
        self._problems = problems

    async def alive(self, _request: Request) -> Response:
        """Serve GET /healthz: 200 while the event loop answers."""
        return document({"status": "ok"})

    async def ready(self, _request: Request) -> Response:
        """Serve GET /readyz: 503 while the gateway drains or has problems."""
        if self._sessions.draining:
            return document({"status": "draining"}, status=503)
        if problems := list(self._problems()):
            return document({"status": problems[0], "problems": problems}, status=503)
        return document({"status": "ready"})
