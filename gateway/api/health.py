"""/healthz and /readyz: alive, and able to serve. Cheap, without a key, and telling nothing else."""

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.api.answers import document
from ostler.gateway.readiness import Readiness
from ostler.gateway.sessions.sessions import Sessions


class Health:
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
        if broken := self._readiness.loops.broken():
            return document({"status": broken[0]}, status=503)
        if not self._readiness.ready:
            return document({"status": "no agent can be started; see the log"}, status=503)
        return document({"status": "ready"})
