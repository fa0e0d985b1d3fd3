"""A process and the JSON-RPC spoken with it: requests with deadlines, messages in wire order, one notice of its death.

Rules:
- The reader never stops: a slow consumer has a backlog of its own. A line is interpreted while it is read, so a session
  is registered before the next line is parsed.
- Every caller that waits for an answer is told of the process's death exactly once, with an error object of its own.
- A write never blocks. Prompts and opens first wait until the pipe takes bytes, with a deadline; answers and cancels
  are written immediately. A process that lets more than `HELD_LIMIT` bytes pile up no longer reads, and is killed.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ostler.pool.agent.codec import AgentCall, AgentNotification
from ostler.pool.errors import AgentFault, AgentSilent, AgentStartFailed, Phase, TransportLost
from ostler.pool.launch.builder import Launch
from ostler.process.ending import Exit
from ostler.process.environment import secret_values
from ostler.process.errors import StdinClosed
from ostler.process.folder import Descriptor
from ostler.process.probe import BlockingProbe
from ostler.process.process import AgentProcess, open_folder
from ostler.process.supervisor import ProcessSupervisor
from ostler.wire.json import JsonObject
from ostler.wire.redaction import Redaction
from ostler.wire.rpc import Junk, Notification, Peer, Reply, Request, RpcFault, RpcId

log = logging.getLogger(__name__)

HELD_LIMIT = 64 * 1024 * 1024
STDERR_LINES = 5
DESCRIBED = 2_000
"""Characters of an agent's error that are passed on."""
SAMPLED = 200
"""Characters of a line without a message that are logged or passed on."""


class Receiver(Protocol):
    """What the connection delivers to: the transport."""

    def notified(self, method: str, params: JsonObject) -> None: ...
    def requested(self, request_id: RpcId, method: str, params: JsonObject) -> None: ...
    def message_dropped(self, head: bytes, why: str) -> None: ...
    def died(self, exit_code: int | None, stderr: tuple[str, ...]) -> None: ...


@dataclass(slots=True, eq=False)
class Pending:
    """One request in flight: its callbacks for the answer and for the death, and the phase it belongs to."""

    method: str
    phase: Phase
    settle: Callable[[Any, RpcFault | None], None]
    fail: Callable[[TransportLost], None]


class AgentConnection:
    """Created without a process; `start` starts it. Implements the process's listener."""

    def __init__(self, launch: Launch, receiver: Receiver, *, versioned: bool) -> None:
        self._launch = launch
        self._receiver = receiver
        self._peer: Peer[Pending] = Peer(versioned=versioned)
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._held = 0
        self._exit: Exit | None = None
        self._process: AgentProcess | None = None
        self._early: list[bytes] = []
        """Frames written before `start` has returned: a process may speak, and even exit, in between."""
        self._redact = Redaction((*launch.command.secrets, *secret_values(launch.command.env)))
        self.sample = ""
        """The first line on stdout that was no message; for a wrong program often its error message."""

    async def start(self, supervisor: ProcessSupervisor, folders: BlockingProbe[Descriptor]) -> None:
        """Start the process. Raises `StartError`."""
        command = self._launch.command
        with await open_folder(command, folders) as folder:
            opened = folder.descriptor.link
            self._process = await AgentProcess.start(command, self, supervisor=supervisor, cwd=opened)
        early, self._early = self._early, []
        for frame in early:
            self._write(frame)

    def rename(self, launch: Launch) -> None:
        """Name another key in errors and logs; the process stays the same."""
        self._launch = launch

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def process(self) -> AgentProcess:
        """The process. Raises `RuntimeError` before `start`."""
        if self._process is None:
            raise RuntimeError("the connection has no process yet")
        return self._process

    @property
    def pid(self) -> int:
        """The pid, also of a process that exited before `start` had returned."""
        return self.process.pid if self._exit is None else self._exit.pid

    @property
    def junk(self) -> int:
        """Lines on stdout that were no message."""
        return self._peer.junk.total()

    @property
    def pending(self) -> int:
        """How many requests wait for an answer."""
        return self._peer.pending

    @property
    def ended(self) -> bool:
        return self._exit is not None

    @property
    def stopping(self) -> bool:
        """Whether its stop has begun: nothing more can be sent."""
        return self._process is not None and self._process.stopping

    def gone(self) -> bool:
        """Whether the process has exited, also when the listener has not been called yet."""
        return self.ended or (self._process is not None and self._process.has_ended())

    def lost(self, phase: Phase) -> TransportLost:
        """The death as an error; a new object for each caller, because each raises its own."""
        ended = self._exit
        code, stderr = (None, ()) if ended is None else (exit_code(ended), ended.stderr[-STDERR_LINES:])
        return TransportLost(
            key=str(self._launch.key),
            provider=self._launch.provider.name,
            pid=self.pid,
            phase=phase,
            exit_code=code,
            stderr=stderr,
        )

    def failure(
        self, phase: Phase, why: str, waited: float, lost: TransportLost | None = None, *, shortage: bool = False
    ) -> AgentStartFailed:
        """The error for a start, open or load that failed, with everything that is known about the process."""
        stderr: Sequence[str] = () if lost is None else lost.stderr
        if lost is None and self._process is not None:
            stderr = self._process.stderr_tail(STDERR_LINES)
        if self._launch.unkeyed:
            why = f"{why}; {self._launch.unkeyed}"
        return AgentStartFailed(
            provider=self._launch.provider.name,
            phase=phase,
            command=self._launch.command.full_argv,
            why=why,
            waited=waited,
            exit_code=None if lost is None else lost.exit_code,
            stderr=stderr,
            shortage=shortage,
        )

    def call(self, call: AgentCall, pending: Pending) -> int:
        """Send a request. `pending` is called with the answer or the death; pass the returned id to `forget`."""
        if self.ended:
            raise self.lost(pending.phase)
        call_id, frame = self._peer.call(call.method, call.params, pending)
        self._write(frame)
        return call_id

    def forget(self, call_id: int) -> None:
        """Drop the pending request: its caller no longer waits for the answer."""
        self._peer.forget(call_id)

    async def ask(
        self,
        call: AgentCall,
        *,
        deadline: float,
        phase: Phase,
        at_once: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send a request and wait for the result. `at_once` is called with it before any later message is read.

        Raises `AgentFault`, `AgentSilent`, `TransportLost`.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any, fault: RpcFault | None) -> None:
            if answer.done():
                return
            if fault is not None:
                answer.set_exception(self._fault(call.method, fault))
                return
            try:
                if at_once is not None:
                    at_once(result)
            except ValueError as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        def fail(lost: TransportLost) -> None:
            if not answer.done():
                answer.set_exception(lost)

        call_id = self.call(call, Pending(call.method, phase, settle, fail))
        try:
            async with asyncio.timeout(deadline):
                return await answer
        except TimeoutError as error:
            raise AgentSilent(provider=self._launch.provider.name, method=call.method, waited=deadline) from error
        finally:
            self._peer.forget(call_id)

    def tell(self, said: AgentCall | AgentNotification) -> None:
        """Send a message whose answer is not needed. No-op when the process is gone."""
        if self.ended:
            return
        if isinstance(said, AgentNotification):
            self._write(self._peer.notify(said.method, said.params))
        else:
            self.call(said, Pending(said.method, Phase.IDLE, _ignore_answer, ignore_death))

    def answer(self, request_id: RpcId, result: JsonObject) -> None:
        """Answer a request of the agent."""
        if not self.ended:
            self._write(self._peer.reply(request_id, result))

    def refuse(self, request_id: RpcId, fault: RpcFault) -> None:
        """Answer a request of the agent with an error."""
        if not self.ended:
            self._write(self._peer.reply_fault(request_id, fault))

    async def wait_writable(self, method: str, phase: Phase) -> None:
        """Wait until the process takes more bytes. Raises `AgentSilent`, `TransportLost`."""
        deadline = self._launch.settings.deadlines.write
        if not self._can_write.is_set():
            try:
                async with asyncio.timeout(deadline):
                    await self._can_write.wait()
            except TimeoutError as error:
                raise AgentSilent(provider=self._launch.provider.name, method=method, waited=deadline) from error
        if self.ended:
            raise self.lost(phase)

    def stdout_received(self, data: bytes) -> None:
        """Parse bytes from the process and deliver each message to the receiver or to its pending request."""
        for message in self._peer.receive(data):
            kind = type(message)
            if kind is Notification:
                self._receiver.notified(message.method, message.params)  # type: ignore[union-attr] # narrowed by kind
            elif kind is Reply:
                message.token.settle(message.result, message.fault)  # type: ignore[union-attr] # narrowed by kind
            elif kind is Request:
                self._receiver.requested(message.id, message.method, message.params)  # type: ignore[union-attr] # by kind
            else:
                self._see_junk(message)  # type: ignore[arg-type] # narrowed by kind

    def writable(self, ok: bool) -> None:
        """Note whether the pipe takes more bytes."""
        if ok:
            self._held = 0
            self._can_write.set()
        else:
            self._can_write.clear()

    def process_exited(self, exit: Exit) -> None:  # noqa: A002 (the process's listener has it so)
        """The process has exited: fail every pending request, then tell the receiver."""
        self._exit = exit
        self._can_write.set()
        if self._process is None:
            return  # the start was called off and the process ended with it; the caller of `start` knows
        for pending in self._peer.close(str(exit)):
            pending.fail(self.lost(pending.phase))
        self._receiver.died(exit_code(exit), exit.stderr[-STDERR_LINES:])

    def _write(self, frame: bytes) -> None:
        if not self._can_write.is_set():
            self._held += len(frame)
            if self._held > HELD_LIMIT:
                log.error("%s does not read: %d bytes wait for it; it is ended", self._launch.key, self._held)
                self.process.kill()
                return
        if self._process is None:
            self._early.append(frame)
            return
        try:
            self._process.write(frame)
        except StdinClosed:
            # The agent closed its stdin and may live on, but can no longer be prompted: kill it, and its exit is
            # reported as any other. While the process is being stopped, the pool closed that pipe itself and the agent
            # has its grace period; remaining frames are dropped.
            if not self._process.stopping:
                self._process.kill()

    def _see_junk(self, junk: Junk) -> None:
        if junk.answer is not None:
            self._write(junk.answer)
        if junk.reason:
            self._receiver.message_dropped(junk.sample, junk.reason)
        if self.sample and not log.isEnabledFor(logging.DEBUG):
            return  # redacting costs more than reading the line, and at this level the result is not used
        said = self._redact.excerpt(junk.sample.decode(errors="replace"), SAMPLED)
        if not self.sample:
            self.sample = said
        log.debug("%s: a line that is no message (%s): %r", self._launch.key, junk.kind, said)

    def _fault(self, method: str, fault: RpcFault) -> AgentFault:
        return AgentFault(
            provider=self._launch.provider.name, method=method, code=fault.code, message=self.described(fault)
        )

    def described(self, fault: RpcFault) -> str:
        """An agent's error message without the secrets that the process was started with."""
        return self._redact.excerpt(described(fault), DESCRIBED)


def exit_code(exit: Exit) -> int | None:  # noqa: A002 (the process's word for it)
    """The exit code, or the negative signal number."""
    return exit.code if exit.signal is None else -exit.signal


def described(fault: RpcFault) -> str:
    """An agent's error message; several agents say only "Internal error" and put the reason into `data`."""
    data = fault.data
    details = data.get("details") or data.get("message") or data.get("error") if type(data) is dict else data
    return f"{fault.message}: {details}" if type(details) is str and details != fault.message else fault.message


def _ignore_answer(_result: Any, _fault: RpcFault | None) -> None:
    """The request was sent with `tell`: its answer is not used."""


def ignore_death(_lost: TransportLost) -> None:
    """The request was sent with `tell`: the receiver reports the death."""
