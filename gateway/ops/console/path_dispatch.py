"""Chooses the application that answers a path: the pages, /admin, or the API.

Rules: runs inside `AuthMiddleware`, so the caller is known and every answer has the security headers.
"""

from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.gateway.ops.console.pages import PATHS


@dataclass(frozen=True, slots=True)
class PathDispatch:
    """A plain ASGI application that delegates to three others."""

    api: ASGIApp
    admin: ASGIApp
    pages: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        chosen = self.pages if path in PATHS else self.admin if path.startswith("/admin/") else self.api
        await chosen(scope, receive, send)
