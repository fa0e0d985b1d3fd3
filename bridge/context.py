"""The session context as an ambient variable, for tools deep inside a call that are not handed the `ToolCall`.

Rules: the context given with a call is the only source. Every call runs in a copy of a context made for its binding's
publication, so sub-tasks inherit it, executor threads get it through `copy_context` (`asyncio.to_thread` does that),
and nothing of the request that happened to publish or to connect leaks in. Outside a call there is none, and asking
is an error: never "some" session.
"""

from contextvars import Context, ContextVar

_session: ContextVar[object] = ContextVar("ostler_session_context")


class NoSessionContext(LookupError):
    def __init__(self) -> None:
        super().__init__("no tool call is running here; pass the context of the call explicitly")


def session_context() -> object:
    """The context of the call that is running."""
    try:
        return _session.get()
    except LookupError as error:
        raise NoSessionContext from error


def ambient_for(context: object) -> Context:
    """A fresh, otherwise empty ambient world for the calls of one publication; copied for each call."""
    ambient = Context()
    ambient.run(_session.set, context)
    return ambient
