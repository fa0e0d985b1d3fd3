"""Every error of the pool. Facts are attributes; the text says what failed, where, after how long, and what to do.

Rules:
- One root, `PoolError`. Foreign exceptions are translated into these once, where they enter, with `from`.
- A protocol fault is the agent's (`AgentFault`, `AgentSilent`); an assertion is ours and is never caught.
- Texts contain no secret: the lines of stderr are redacted before they get here.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Self


class Phase(StrEnum):
    """The phase of a start or a session open in which it failed."""

    SPAWN = "spawn"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    SESSION_OPEN = "session_open"
    SESSION_LOAD = "session_load"
    TOOLS = "tools"
    PROMPT = "prompt"
    IDLE = "idle"


class PoolError(Exception):
    """Base of every error that the pool raises on purpose."""

    def again(self) -> Self:
        """A copy for another caller: raising one instance twice would mix the two tracebacks."""
        twin = type(self).__new__(type(self), *self.args)
        twin.__dict__.update(self.__dict__)
        twin.__cause__ = self.__cause__
        return twin

    def alone(self) -> Self:
        """A copy to keep: without traceback and cause, which would keep frames alive."""
        twin = self.again()
        twin.__cause__ = None
        return twin


class UnknownProvider(PoolError, ValueError):
    """No provider of this name is known."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown provider {name!r}; known providers: {', '.join(sorted(known)) or 'none'}")
        self.name = name
        self.known = tuple(sorted(known))


class BadDirectory(PoolError, ValueError):
    """A working directory in which no agent may be started."""

    def __init__(self, cwd: str, why: str, place: str | None = None) -> None:
        """`place`: where the path leads, as far as it can be followed. The gateway uses it to decide whether the client
        may know `why`.
        """
        super().__init__(f"working directory {cwd!r} cannot be used: {why}")
        self.cwd = cwd
        self.why = why
        self.place = place


class PoolClosed(PoolError):
    """The pool is shut down, or was shut down while this call waited."""

    def __init__(self, text: str = "the pool is shut down") -> None:
        super().__init__(text)


class AgentStartFailed(PoolError):
    """An agent process did not become ready."""

    def __init__(
        self,
        *,
        provider: str,
        phase: Phase,
        command: Sequence[str],
        why: str,
        waited: float,
        exit_code: int | None = None,
        stderr: Sequence[str] = (),
        shortage: bool = False,
    ) -> None:
        ended = "" if exit_code is None else f", {_ending(exit_code)}"
        tail = "" if not stderr else "; last stderr lines: " + " | ".join(stderr)
        program = command[0] if command else "?"
        super().__init__(
            f"{provider}: agent {program!r} failed in phase {phase.value} after {waited:.1f} s: {why}{ended}{tail}"
        )
        self.provider = provider
        self.phase = phase
        self.command = tuple(command)
        self.why = why
        self.waited = waited
        self.exit_code = exit_code
        self.stderr = tuple(stderr)
        self.shortage = shortage
        """This machine had no room for the process, which says nothing of the agent."""

    @property
    def before_ready(self) -> bool:
        """Whether the process itself failed, not a session on it."""
        return self.phase in (Phase.SPAWN, Phase.HANDSHAKE, Phase.AUTHENTICATE)


class AgentMissing(PoolError):
    """The agent's program is not installed where the child process would look for it."""

    def __init__(self, *, program: str, path: str, install: str) -> None:
        super().__init__(f"no program {program!r} on PATH ({path}); install it with: {install}")
        self.program = program
        self.path = path
        self.install = install


class ToolChannelMissing(PoolError):
    """Tools cannot reach the sessions of this process over the configured channel."""

    def __init__(self, *, provider: str, channel: str, why: str) -> None:
        super().__init__(f"{provider}: tools cannot be offered over the channel {channel!r}: {why}")
        self.provider = provider
        self.channel = channel
        self.why = why


class LoadRefused(PoolError):
    """The session is not loaded, because the agent would load it wrongly: replay the transcript into a new session
    instead.
    """

    def __init__(self, *, provider: str, session_id: str, why: str, ready_at: float | None = None) -> None:
        super().__init__(f"{provider}: session {session_id!r} is not loaded: {why}")
        self.provider = provider
        self.session_id = session_id
        self.why = why
        self.ready_at = ready_at


class RecordIncomplete(PoolError):
    """The agent has loaded a session that lacks the last turns: replay the transcript into a new one."""

    def __init__(self, *, provider: str, session_id: str) -> None:
        super().__init__(
            f"{provider}: session {session_id!r} was loaded without the last that was said in it; was the disk full?"
        )
        self.provider = provider
        self.session_id = session_id


class TransportLost(PoolError):
    """The agent process is gone, with every session on it.

    Exit code 0 is no clean end: an agent that stops without being told to is lost, and one real agent exits with 0 when
    it meets a byte that it cannot read.
    """

    def __init__(
        self,
        *,
        key: str,
        provider: str,
        pid: int,
        phase: Phase,
        exit_code: int | None,
        stderr: Sequence[str] = (),
    ) -> None:
        tail = "" if not stderr else "; last stderr lines: " + " | ".join(stderr)
        super().__init__(f"{key}: agent process {pid} was lost in phase {phase.value} ({_ending(exit_code)}){tail}")
        self.key = key
        self.provider = provider
        self.pid = pid
        self.phase = phase
        self.exit_code = exit_code
        """Minus the signal's number when a signal ended the process; None when the status is unknown."""
        self.stderr = tuple(stderr)


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "exit status unknown"
    return f"exit code {exit_code}" if exit_code >= 0 else f"ended by signal {-exit_code}"


class SharedProcess(PoolError):
    """A user of a shared process tried to end it."""

    def __init__(self, *, key: str, pid: int) -> None:
        super().__init__(
            f"{key}: agent process {pid} is shared and is ended by its pool only; release the lease, or use the pool's "
            "kill, recycle or drain"
        )
        self.key = key
        self.pid = pid


class AgentFault(PoolError):
    """The agent answered a request with an error."""

    def __init__(self, *, provider: str, method: str, code: int, message: str) -> None:
        super().__init__(f"{provider}: the agent answered {method} with an error: {message} ({code})")
        self.provider = provider
        self.method = method
        self.code = code
        self.message = message


class AgentSilent(PoolError):
    """A request had no answer within its deadline."""

    def __init__(self, *, provider: str, method: str, waited: float) -> None:
        super().__init__(f"{provider}: the agent did not answer {method} within {waited:.1f} s")
        self.provider = provider
        self.method = method
        self.waited = waited


class UnknownSession(PoolError):
    """The agent does not know this session, or no longer."""

    def __init__(self, *, provider: str, session_id: str) -> None:
        super().__init__(f"{provider}: the agent does not know session {session_id!r}")
        self.provider = provider
        self.session_id = session_id


class SessionBusy(PoolError):
    """A second prompt for a session with a running turn. The pool refuses it: agents have six ways to handle it
    wrongly.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} has a running turn; wait for its end or cancel it first")
        self.session_id = session_id


class SessionEnded(PoolError):
    """The session was closed or sealed; a new one must be opened."""

    def __init__(self, session_id: str, why: str) -> None:
        super().__init__(f"session {session_id!r} is over: {why}")
        self.session_id = session_id
        self.why = why


class LeaseEnded(PoolError):
    """The lease was released: its seat is closed, and prompts are refused at once."""

    def __init__(self, key: object, lease: int) -> None:
        super().__init__(f"{key}: lease {lease} was released; lease anew, with `resume` to go on with its session")
        self.key = key
        self.lease = lease


class NoToolPort(PoolError, ValueError):
    """Tools were requested, and this pool has no tool port to answer their calls."""

    def __init__(self, key: object) -> None:
        super().__init__(
            f"{key}: this pool has no tool port, so a session would be without its tools; "
            "open it with `open_pool(tool_port=bridge)`, with a bridge of `ostler.bridge.open_bridge()`"
        )
        self.key = key


class PromptTooLarge(PoolError, ValueError):
    """The prompt is over the agent's limit and was not sent: past this size the agent answers nonsense or nothing."""

    def __init__(self, *, provider: str, size: int, limit: int, unit: str) -> None:
        super().__init__(f"{provider}: the prompt has {size} {unit}, the agent takes {limit}; shorten it")
        self.provider = provider
        self.size = size
        self.limit = limit
        self.unit = unit


class PromptUnsupported(PoolError, ValueError):
    """The agent did not offer to take this kind of content."""

    def __init__(self, *, provider: str, kind: str) -> None:
        super().__init__(f"{provider}: the agent takes no {kind} content")
        self.provider = provider
        self.kind = kind


class PoolSaturated(PoolError):
    """Over a limit: nothing was started and nothing is promised. `census` says what the pool holds."""

    def __init__(self, *, what: str, census: str, retry_after: float, last_failure: str | None = None) -> None:
        failure = "" if last_failure is None else f"; last start failure: {last_failure}"
        super().__init__(f"the pool is saturated: {what}; {census}; retry in {retry_after:.1f} s{failure}")
        self.what = what
        self.census = census
        self.retry_after = retry_after
        self.last_failure = last_failure


class BreakerOpen(PoolError):
    """Starts of this kind failed so often, or this machine has so little room, that none is tried for a while. The
    claim is refused at once instead of waiting.
    """

    def __init__(self, *, provider: str, retry_after: float, last_failure: str) -> None:
        super().__init__(
            f"{provider}: starts failed, and none is tried for another {retry_after:.1f} s; "
            f"the last one: {last_failure}"
        )
        self.provider = provider
        self.retry_after = retry_after
        self.last_failure = last_failure


class PoolPaused(PoolError):
    """An operator paused this key, and it stayed paused until the claim's deadline."""

    def __init__(self, *, key: str, waited: float) -> None:
        super().__init__(f"{key} is paused by an operator; waited {waited:.1f} s; resume it or try later")
        self.key = key
        self.waited = waited


class NestedClaimRefused(PoolError):
    """A turn that holds a seat requested another one that only its own end could free."""

    def __init__(self, *, key: str, census: str) -> None:
        super().__init__(
            f"{key}: every seat is held by the turns that wait for this one, so waiting would never end; {census}; "
            "raise the limits or nest less"
        )
        self.key = key
        self.census = census
