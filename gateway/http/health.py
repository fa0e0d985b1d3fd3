"""/healthz and /readyz: alive, and able to serve. Cheap, without a key, and telling nothing else."""

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.answers import document
from ostler.gateway.turns.sessions import Sessions


class HealthRoutes:
    """Two questions."""

    def __init__(self, sessions: Sessions, problems: Callable[[], Sequence[str]]) -> None:
        """`problems`: why the gateway cannot serve now, each in a sentence."""
        self._sessions = sessions
        self._problems = problems

    async def alive(self, _request: Request) -> Response:
        """GET /healthz"""
        return document({"status": "ok"})

    async def ready(self, _request: Request) -> Response:
        """GET /readyz"""
        if self._sessions.draining:
            return document({"status": "draining"}, status=503)
        if problems := list(self._problems()):
            return document({"status": problems[0], "problems": problems}, status=503)
        return document({"status": "ready"})
