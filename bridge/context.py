"""The session context as a context variable, for code deep inside a tool call that does not get the `ToolCall`.

Rules: the context given with a call is the only source. Every call runs in a copy of a context made for its binding's
publication, so sub-tasks inherit it, executor threads get it through `copy_context` (`asyncio.to_thread` does that),
and nothing of the request that published or connected leaks in. Outside a call there is no session context, and asking
for one raises `NoSessionContext`.
"""

from contextvars import Context, ContextVar

_session: ContextVar[object] = ContextVar("ostler_session_context")


class NoSessionContext(LookupError):
    """Code asked for the session context outside of a tool call."""

    def __init__(self) -> None:
        super().__init__("no tool call is running here; pass the context of the call explicitly")


def session_context() -> object:
    """The context of the running call. Raises `NoSessionContext` outside of one."""
    try:
        return _session.get()
    except LookupError as error:
        raise NoSessionContext from error


def ambient_for(context: object) -> Context:
    """A new `contextvars.Context` that holds only the session context; copied for each call of one publication."""
    ambient = Context()
    ambient.run(_session.set, context)
    return ambient
