"""/healthz and /readyz: alive, and able to serve. Cheap, without a key, and telling nothing else."""

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.answers import document
from ostler.gateway.ops.readiness import Readiness
from ostler.gateway.turns.sessions import Sessions


class HealthRoutes:
    """Two questions."""

    def __init__(self, sessions: Sessions, readiness: Readiness) -> None:
        self._sessions = sessions
        self._readiness = readiness

    async def alive(self, _request: Request) -> Response:
        """GET /healthz"""
        return document({"status": "ok"})

    async def ready(self, _request: Request) -> Response:
        """GET /readyz"""
        if self._sessions.draining:
            return document({"status": "draining"}, status=503)
        if problems := [problem.text for problem in self._readiness.problems]:
            return document({"status": problems[0], "problems": problems}, status=503)
        return document({"status": "ready"})
