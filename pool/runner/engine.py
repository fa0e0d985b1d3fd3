"""Feeds the core and performs its actions: the only place where events go in and actions come out.

Rules:
- `tell` may be called from any code on the loop, also from within an action: events are handled one after the other,
  each with all its actions performed before the next.
- An action is performed without waiting: slow work becomes a task of the `TaskOwner`, which reports its outcome to the
  core.
- A claim is answered by `Grant` or `Refuse`, at once or through a future, exactly once.
- The core decides, the engine only finds: a live object is made when the core orders it and dropped when the core is
  told that it is gone, so the engine never holds more than the core knows of.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from ostler.metrics.loops import Loops
from ostler.pool.agent.session_transfers import SessionTransfers
from ostler.pool.core import actions, events
from ostler.pool.core.machine import PoolCore
from ostler.pool.core.values import ClaimId, Counted, LeaseId, SeatId, SlotId
from ostler.pool.errors import Phase, PoolClosed, PoolError
from ostler.pool.keys import PoolKey, pool_key
from ostler.pool.launch.builder import Launch, spare_of
from ostler.pool.launch.configuration import PoolSettings
from ostler.pool.launch.edition import SettingsEdition
from ostler.pool.observer import Observer
from ostler.pool.ports import PermissionPolicy, ToolPort
from ostler.pool.runner.launches import Launches
from ostler.pool.runner.live_process import LiveProcess, StartTransport
from ostler.pool.runner.live_seat import LiveSeat
from ostler.pool.tasks import TaskOwner
from ostler.process.folder import Descriptor, Folder
from ostler.process.probe import BlockingProbe

log = logging.getLogger(__name__)
TICK_AGAIN = 1.0
"""Seconds until the next tick after one that failed."""
ClaimAnswer = actions.Grant | actions.Refuse
# Log levels; anything else is INFO. The death of a process has its own warning, logged by its transport.
LEVELS: Mapping[Counted, int] = MappingProxyType(
    {
        Counted.START_FAILED: logging.WARNING,
        Counted.BREAKER_OPENED: logging.WARNING,
        Counted.CEILING_TOO_LOW: logging.WARNING,
        Counted.STOP_OVERDUE: logging.WARNING,
        Counted.STALE: logging.DEBUG,
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failed start or open of a key, or its last death. It is kept while the key is known, so the error is
    kept without the frames of the failed work, which refer to its process, session and tools.
    """

    error: PoolError
    at: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", self.error.alone())


@dataclass(frozen=True, slots=True)
class Ground:
    """The loop and the task owner of a started engine."""

    loop: asyncio.AbstractEventLoop
    tasks: TaskOwner


class Engine:
    """The core, the tasks and the live objects of one pool."""

    def __init__(
        self,
        edition: SettingsEdition,
        *,
        start_transport: StartTransport,
        tool_port: ToolPort | None,
        default_policy: PermissionPolicy,
        observer: Observer,
        clock: Callable[[], float],
        chance: Callable[[], float],
        loops: Loops,
    ) -> None:
        self.core = PoolCore(edition.settings.limits)
        self.launches = Launches(edition, self.core, self.tell)
        self.processes: dict[SlotId, LiveProcess] = {}
        self.failures: dict[PoolKey, Failure] = {}
        """The typed error of each key's last failure, quoted when the core refuses a claim."""
        self.observer = observer
        self.tool_port = tool_port
        self.clock = clock
        self.chance = chance
        self.transfers = SessionTransfers()
        self._start_transport = start_transport
        self._default_policy = default_policy
        self._loops = loops
        self._ticks = loops.add("the pool's clock")
        self._watch_every = edition.settings.watch_every
        self._waiting: dict[ClaimId, asyncio.Future[ClaimAnswer]] = {}
        self._early: dict[ClaimId, ClaimAnswer] = {}
        self._inbox: deque[events.CoreEvent] = deque()
        self._pumping = False
        self._closed = False
        self._empty = asyncio.Event()
        self._ground: Ground | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._warned_unkeyed: set[str] = set()
        self._folders: dict[str, Folder] = {}
        self._folder_probe: BlockingProbe[Descriptor] = BlockingProbe()
        self._perform: dict[type, Callable[..., None]] = {
            actions.StartSlot: self._start_slot,
            actions.AdoptSlot: self._adopt_slot,
            actions.StopSlot: self._stop_slot,
            actions.OpenSeat: self._open_seat,
            actions.CloseSeat: self._close_seat,
            actions.Grant: self._grant,
            actions.Refuse: self._answer,
            actions.MoveRequested: self._move,
            actions.SeatsLost: self._seats_lost,
            actions.Probe: self._probe,
            actions.WakeAt: self._wake_at,
            actions.ForgetKey: self._forget_key,
            actions.Notable: self._note,
        }

    # --- life ---

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind to a loop and start the watches."""
        self._ground = Ground(loop, TaskOwner(loop, self._work_died))
        # Two tasks: a file system that does not answer delays the second, and memory is still watched.
        self.work(self._watch_memory(), "memory watch")
        self.work(self._watch_launch_files(), "watch of files")

    async def stop(self) -> None:
        """Refuse every claim, end every process, and wait until no slot is left."""
        self._closed = True
        if self._ground is None:
            return
        self.tell(events.Shutdown())
        while self.processes:
            self._empty.clear()
            await self._empty.wait()
        await self._ground.tasks.disband()
        self._ticks.stopped()
        if self._alarm is not None:
            self._alarm.cancel()

    async def _watch_memory(self) -> None:
        await self._loops.add("the watch of the agents' memory").repeat(lambda: self._watch_every, self._weigh_all)

    async def _weigh_all(self) -> None:
        for process in list(self.processes.values()):
            try:
                await process.weigh()
            except (OSError, RuntimeError) as error:
                # Out of descriptors or threads, for instance: this measurement is lost, not the following ones.
                log.warning("cannot measure the memory of %s: %s", process.key, error)
        # A spare outlives the key it was started for, and may die after that key is forgotten.
        for key in [key for key in self.failures if not self.launches.knows(key)]:
            del self.failures[key]

    async def _watch_launch_files(self) -> None:
        loop = self._loops.add("the watch of the files that agents are started from")
        await loop.repeat(lambda: self._watch_every, self.launches.check_files)

    def work(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a task of the pool; the `TaskOwner` owns it."""
        if self._ground is None:
            work.close()
        return self._bound.tasks.start(work, name)

    @property
    def _bound(self) -> Ground:
        if self._ground is None:
            raise RuntimeError("the pool was not started: `await pool.start()`, or use it as a context manager")
        return self._ground

    def reload(self, settings: PoolSettings, environ: Mapping[str, str]) -> None:
        """Use other settings from now on. Raises `SettingsError`, and then nothing has changed."""
        self.require_open()
        if settings.limits != self.core.state.limits:
            self.tell(events.LimitsChanged(settings.limits))
        self._watch_every = settings.watch_every
        self.launches.edition = self.launches.edition.next(settings, environ)

    def cool_shared(self) -> None:
        """Let every shared process end when its sessions have moved, and keep none warm."""
        for key in self.launches.known():
            if not key.private:
                self.tell(events.StopWarming(key))

    # --- events in ---

    def tell(self, event: events.CoreEvent) -> None:
        """Pass an event to the core and perform the actions that it returns."""
        self._inbox.append(event)
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._inbox:
                for action in self.core.handle(self._inbox.popleft(), self.clock()):
                    self._do(action)
        finally:
            self._pumping = False
        if not self.processes:
            self._empty.set()

    def _do(self, action: actions.Action) -> None:
        try:
            self._perform[type(action)](action)
        except Exception as error:  # noqa: BLE001 (the core has recorded this action and all that follow: perform them)
            self._work_died(type(action).__name__, error)

    def require_open(self) -> None:
        """Raise `PoolClosed` once the shutdown has begun."""
        if self._closed:
            raise PoolClosed

    def order(self, event: events.CoreEvent) -> None:
        """Pass an operator's order to the core. Raises `PoolClosed`."""
        self.require_open()
        self.tell(event)

    async def claim(self, claim: events.Claim) -> ClaimAnswer:
        """Pass a claim to the core and return its answer. A warm pool answers without an iteration of the loop."""
        self.require_open()
        self.tell(claim)
        early = self._early.pop(claim.claim, None)
        if early is not None:
            return early
        future: asyncio.Future[ClaimAnswer] = self._bound.loop.create_future()
        self._waiting[claim.claim] = future
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(claim.claim)
            raise

    def _abandon(self, claim: ClaimId) -> None:
        """The caller of a claim is gone, perhaps with a grant on its way."""
        self._waiting.pop(claim, None)
        for process in self.processes.values():
            for seat in process.seats.values():
                if seat.claim == claim:
                    seat.lease = None
        self.tell(events.ClaimAbandoned(claim))

    def granted(self, grant: actions.Grant) -> LiveSeat | None:
        """The seat of a grant; None if its process has died since."""
        seat = self._seat(grant.slot, grant.seat)
        return seat if seat is not None and seat.lease == grant.lease and seat.session is not None else None

    def release(self, seat: LiveSeat) -> None:
        """The holder has released its lease. Idempotent."""
        seat.moved.set()
        lease, seat.lease = seat.lease, None
        if lease is not None:
            self.tell(events.LeaseReleased(lease))

    # --- what live objects need ---

    def remember_failure(self, key: PoolKey, error: PoolError) -> None:
        """Keep the last start or open failure of a key."""
        self.failures[key] = Failure(error, self.clock())

    def process_gone(self, process: LiveProcess) -> None:
        """The process and its tree have ended."""
        del self.processes[process.slot]
        self.close_unused_folders()
        self.tell(events.SlotGone(process.slot))

    def folder(self, cwd: str) -> Folder:
        """One `Folder` for all sessions of a directory, open as long as any of them exists."""
        folder = self._folders.get(cwd)
        if folder is None:
            folder = self._folders[cwd] = Folder(cwd, self._folder_probe)
        return folder

    def close_unused_folders(self) -> None:
        """Close the folders of directories without seats: such a directory may be unmounted, even if some object still
        refers to a session that was there.
        """
        used = {process.key.key.cwd for process in self.processes.values() if process.seats}
        for cwd in [cwd for cwd in self._folders if cwd not in used]:
            self._folders.pop(cwd).close()

    # --- actions out ---

    def _seat(self, slot: SlotId, seat: SeatId) -> LiveSeat | None:
        process = self.processes.get(slot)
        return None if process is None else process.seats.get(seat)

    def _start_slot(self, action: actions.StartSlot) -> None:
        key = pool_key(action.key)
        if (failed := self.launches.failed(key)) is not None:
            # Its program or a setting is gone, so the start cannot even be prepared.
            if isinstance(failed, PoolError):
                self.remember_failure(key, failed)
            self.observer.started(key.key.provider, "failed", Phase.SPAWN.value, 0.0)
            text = str(failed)
            self.tell(events.SlotStartFailed(action.slot, Phase.SPAWN.value, text, self.chance(), retryable=False))
            self.tell(events.SlotGone(action.slot))
            return
        launch = self.launches.of(key.key)
        self._warn_unkeyed(launch)
        process = LiveProcess(self, action.slot, key, spare_of(launch) if action.spare else launch)
        self.processes[action.slot] = process
        process.task = self.work(process.start(self._start_transport), f"start {action.slot}")
        # A task cancelled before its first step never runs and reports nothing, and its slot would stay CLOSING without
        # end.
        process.task.add_done_callback(lambda _: process.start_over(), context=Context())

    def _warn_unkeyed(self, launch: Launch) -> None:
        """Warn once per provider that no key was found. This does not prevent the start: the agent may find its key
        elsewhere.
        """
        provider = launch.provider
        if launch.unkeyed and provider.name not in self._warned_unkeyed:
            self._warned_unkeyed.add(provider.name)
            log.warning("%s: %s; %s", provider.name, launch.unkeyed, provider.advice())

    def _adopt_slot(self, action: actions.AdoptSlot) -> None:
        self.processes[action.slot].adopt(pool_key(action.key))

    def _stop_slot(self, action: actions.StopSlot) -> None:
        process = self.processes.get(action.slot)
        if process is None:
            return
        process.stopping = True
        for seat in list(process.seats.values()):
            seat.end_with_process()
        if process.transport is None and process.task is not None:
            process.task.cancel()
        else:
            self.work(process.stop(hard=action.hard), f"stop {action.slot}")

    def _open_seat(self, action: actions.OpenSeat) -> None:
        process = self.processes[action.slot]
        seat = process.seats[action.seat] = LiveSeat(self, process, action, self._default_policy)
        self.work(seat.open(), f"open {action.seat}")

    def _close_seat(self, action: actions.CloseSeat) -> None:
        seat = self._seat(action.slot, action.seat)
        if seat is None:
            return
        seat.unwanted = True
        if seat.ready_at is not None:
            self.work(seat.close(), f"close {action.seat}")

    def _grant(self, action: actions.Grant) -> None:
        process = self.processes[action.slot]
        seat = process.seats[action.seat]
        seat.grant(action)
        if seat.session is not None and not process.has_answered:
            seat.session.on_answer(partial(self._first_answer_given, seat, action.lease))
        self._answer(action)

    def _first_answer_given(self, seat: LiveSeat, lease: LeaseId) -> None:
        # The lease may be released already, after a turn that ended without an answer. The core would ignore the event
        # then, so the next lease on this process must listen for the first answer again.
        if seat.lease == lease:
            seat.process.has_answered = True
            self.tell(events.Answered(lease))

    def _answer(self, action: ClaimAnswer) -> None:
        future = self._waiting.pop(action.claim, None)
        if future is None:
            self._early[action.claim] = action
        elif not future.done():
            future.set_result(action)

    def _leased(self, slot: SlotId, leases: tuple[LeaseId, ...]) -> list[LiveSeat]:
        process = self.processes.get(slot)
        return [] if process is None else [seat for seat in process.seats.values() if seat.lease in leases]

    def _move(self, action: actions.MoveRequested) -> None:
        for seat in self._leased(action.slot, (action.lease,)):
            seat.ask_to_move(action.cause.value)

    def _seats_lost(self, action: actions.SeatsLost) -> None:
        for seat in self._leased(action.slot, action.leases):
            transport = seat.process.transport
            lost = None if transport is None else transport.lost
            seat.end_with_process()
            seat.lose(lost or PoolError(action.text or f"the process was ended: {action.cause.value}"))

    def _probe(self, action: actions.Probe) -> None:
        process = self.processes.get(action.slot)
        if process is not None:
            self.work(process.probe(), f"probe {action.slot}")

    def _wake_at(self, action: actions.WakeAt) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._set_alarm(max(0.0, action.time - self.clock()))

    def _set_alarm(self, delay: float) -> None:
        # In an empty context: each Tick sets the next alarm, so a request's context would be passed on without end.
        self._alarm = self._bound.loop.call_later(delay, self._tick, context=Context())

    def _tick(self) -> None:
        with self._ticks.round():
            self.tell(events.Tick())
        if self._ticks.failures:
            # The core did not get to order the next alarm: without one, nothing would time out or be swept any more.
            self._set_alarm(TICK_AGAIN)

    def _forget_key(self, action: actions.ForgetKey) -> None:
        key = pool_key(action.key)
        self.launches.forget(key)
        self.failures.pop(key, None)

    def _note(self, action: actions.Notable) -> None:
        provider = "" if action.key is None else pool_key(action.key).key.provider
        cause = "" if action.cause is None else action.cause.value
        self.observer.noted(provider, action.what.value, cause)
        level = LEVELS.get(action.what, logging.INFO)
        log.log(level, "%s: %s %s %s", action.what.value, action.key, cause, action.text)

    def _work_died(self, name: str, error: BaseException) -> None:
        log.error("pool work %r died of a bug: %r", name, error, exc_info=error)
        self.observer.noted("", "bug", type(error).__name__)
