"""The errors of the bridge, with the facts as attributes.

Two families: `BridgeError` for operators and embedders of the bridge, and `CallRefused` for a call that was never
dispatched. The second is translated once, in `mcp.py` for the wire and in `session_binding.py` for native channels. No
text in here may contain a token.
"""

from pathlib import Path


class BridgeError(Exception):
    """The base of the errors that the bridge raises to its owner."""


class BridgeNotRunning(BridgeError):
    """A method was called before `start` or after `stop`."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        super().__init__(f"{wanted}: the bridge is not running; call start() first")


class BindingRevoked(BridgeError):
    """The binding has ended, and cannot be used again."""

    def __init__(self) -> None:
        super().__init__("the binding is revoked; open a new one")


class DuplicateTool(BridgeError):
    """Two tools of one list have the same name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"two tools are called {name!r} in one tool list; rename one")


class ToolMalformed(BridgeError):
    """A tool definition lacks a name or schema, or cannot be encoded as JSON."""

    def __init__(self, name: str, detail: str) -> None:
        self.name = name
        self.detail = detail
        super().__init__(f"tool {name!r} cannot be offered: {detail}")


class TokenCollision(BridgeError):
    """The token source returned a malformed token or one that is in use."""

    def __init__(self) -> None:
        super().__init__("the token source repeated or malformed a token; it must give 32 fresh lowercase hex digits")


class SocketRefused(BridgeError):
    """The path for the socket is not safe to use."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"refusing bridge socket at {path}: {reason}")


class SocketInUse(BridgeError):
    """Another process serves the socket or holds its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"another gateway serves {path}; stop it or choose another data directory")


class CallRefused(Exception):
    """The base of the refusals of a call that reached no dispatcher."""


class NotBound(CallRefused):
    """One refusal, with the same words, for unknown, revoked, foreign, malformed and missing tokens."""

    def __init__(self) -> None:
        super().__init__("this tool connection is not bound to a session")


class NothingPublished(CallRefused):
    """The session has no tools at present."""

    def __init__(self) -> None:
        super().__init__("this session has no tools yet")


class UnknownTool(CallRefused):
    """The session has no tool of this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"unknown tool: {name[:128]}")


class TooManyCalls(CallRefused):
    """The session's limit of running calls is reached."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"{limit} calls are already running in this session; wait for one to finish")


class ToolsLost(CallRefused):
    """The agent's connection to its tools ended while the call was running."""

    def __init__(self, loss: str) -> None:
        self.loss = loss
        super().__init__("the call was ended: this session has lost its tools; the next turn has them again")


class CallWithdrawn(CallRefused):
    """The session withdrew its tools while the call was running."""

    def __init__(self) -> None:
        super().__init__("the call was ended: the session withdrew its tools")
