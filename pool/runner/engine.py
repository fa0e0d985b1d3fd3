"""Feeds the core and performs its actions: the only place where events go in and actions come out.

Rules:
- `tell` may be called from any code on the loop, also from within an action: events are handled one after the other,
  each with all its actions performed before the next.
- An action is performed without waiting: slow work becomes a task of the `TaskOwner`, which reports its outcome to the
  core.
- A claim is answered by `Grant` or `Refuse`, at once or through a future, exactly once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from ostler.metrics.loops import Loops
from ostler.pool.core import actions, events
from ostler.pool.core.machine import PoolCore
from ostler.pool.core.settings import Limits
from ostler.pool.core.values import ClaimId, Counted, LeaseId
from ostler.pool.errors import PoolClosed, PoolError
from ostler.pool.lease import LeaseState
from ostler.pool.observer import Observer
from ostler.pool.order import SessionMemo
from ostler.pool.ports import PermissionPolicy, ToolPort, ToolSet
from ostler.pool.runner.actions import ActionRunner, StartTransport
from ostler.pool.runner.launch_cache import LaunchCache
from ostler.pool.runner.launch_refresh import LaunchRefresh
from ostler.pool.runner.live import LiveObjects, LiveProcess, LiveSeat, PoolKey, SeatPolicy, pool_key
from ostler.pool.tasks import TaskOwner

log = logging.getLogger(__name__)
TICK_AGAIN = 1.0
"""Seconds until the next tick after one that failed."""
ClaimAnswer = actions.Grant | actions.Refuse
# Log levels; anything else is INFO. The death of a process has its own warning, logged by its transport.
LEVELS = MappingProxyType(
    {
        Counted.START_FAILED: logging.WARNING,
        Counted.BREAKER_OPENED: logging.WARNING,
        Counted.CEILING_TOO_LOW: logging.WARNING,
        Counted.STOP_OVERDUE: logging.WARNING,
        Counted.STALE: logging.DEBUG,
    }
)


@dataclass(frozen=True, slots=True)
class Ground:
    """The loop and the task owner of a started engine."""

    loop: asyncio.AbstractEventLoop
    tasks: TaskOwner


class Engine:
    """The core, the tasks and the live objects of one pool."""

    def __init__(
        self,
        limits: Limits,
        *,
        launch_cache: LaunchCache,
        start_transport: StartTransport,
        tool_port: ToolPort | None,
        default_policy: PermissionPolicy,
        observer: Observer,
        clock: Callable[[], float],
        chance: Callable[[], float],
        loops: Loops,
    ) -> None:
        self.core = PoolCore(limits)
        self.live = LiveObjects()
        self._launch_cache = launch_cache
        self._observer = observer
        self._clock = clock
        self._loops = loops
        self._ticks = loops.add("the pool's clock")
        self._default_policy = default_policy
        self._runner = ActionRunner(
            live=self.live,
            tell=self.tell,
            start=start_transport,
            tool_port=tool_port,
            observer=observer,
            clock=clock,
            chance=chance,
        )
        self.launches = LaunchRefresh(launch_cache, self.core, self.tell)
        self._waiting: dict[ClaimId, asyncio.Future[ClaimAnswer]] = {}
        self._early: dict[ClaimId, ClaimAnswer] = {}
        self._inbox: deque[events.CoreEvent] = deque()
        self._pumping = False
        self._closed = False
        self._empty = asyncio.Event()
        self._ground: Ground | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._watch_every = 0.0
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

    def start(self, loop: asyncio.AbstractEventLoop, *, watch_every: float) -> None:
        """Bind to a loop and start the watches."""
        self._ground = Ground(loop, TaskOwner(loop, self._work_died))
        self._watch_every = watch_every
        # Two tasks: a file system that does not answer delays the second, and memory is still watched.
        self.work(self._watch_memory(), "memory watch")
        self.work(self._watch_launch_files(), "watch of files")

    async def stop(self) -> None:
        """Refuse every claim, end every process, and wait until no slot is left."""
        self._closed = True
        if self._ground is None:
            return
        self.tell(events.Shutdown())
        while self.live.slots:
            self._empty.clear()
            await self._empty.wait()
        await self._ground.tasks.disband()
        self._ticks.stopped()
        if self._alarm is not None:
            self._alarm.cancel()

    async def _watch_memory(self) -> None:
        await self._loops.add("the watch of the agents' memory").repeat(lambda: self._watch_every, self._weigh_all)

    async def _weigh_all(self) -> None:
        for running in list(self.live.slots.values()):
            try:
                await self._runner.weigh_slot(running)
            except (OSError, RuntimeError) as error:
                # Out of descriptors or threads, for instance: this measurement is lost, not the following ones.
                log.warning("cannot measure the memory of %s: %s", running.key, error)
        self._forget_failures()

    async def _watch_launch_files(self) -> None:
        loop = self._loops.add("the watch of the files that agents are started from")
        await loop.repeat(lambda: self._watch_every, self.launches.check_files)

    def _forget_failures(self) -> None:
        """Drop failures of unknown keys: a spare outlives the key it was started for, and may die after that key is
        forgotten.
        """
        for key in [key for key in self.live.failures if not self.launches.knows(key)]:
            del self.live.failures[key]

    @property
    def _bound(self) -> Ground:
        if self._ground is None:
            raise RuntimeError("the pool was not started: `await pool.start()`, or use it as a context manager")
        return self._ground

    def reload(self, limits: Limits, *, watch_every: float) -> None:
        """Use other limits from now on. Raises `SettingsError`, and then nothing has changed."""
        self.require_open()
        if limits != self.core.state.limits:
            self.tell(events.LimitsChanged(limits))
        self._watch_every = watch_every

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
                for action in self.core.handle(self._inbox.popleft(), self._clock()):
                    self._do(action)
        finally:
            self._pumping = False
        if not self.live.slots:
            self._empty.set()

    def _do(self, action: actions.Action) -> None:
        try:
            self._perform[type(action)](action)
        except Exception as error:  # noqa: BLE001 (the core has recorded this action and all that follow: perform them)
            self._work_died(type(action).__name__, error)

    def failure(self, key: PoolKey) -> PoolError | None:
        """The last start or open failure of a key."""
        failed = self.live.failures.get(key)
        return None if failed is None else failed.error

    def release(self, state: LeaseState) -> None:
        """The holder has released its lease. Idempotent."""
        state.moved.set()
        if self.live.leases.pop(state.lease, None) is not None:
            self.tell(events.LeaseReleased(LeaseId(state.lease), state.generation))

    def require_open(self) -> None:
        """Raise `PoolClosed` once the shutdown has begun."""
        if self._closed:
            raise PoolClosed

    def order(self, event: events.CoreEvent) -> None:
        """Pass an operator's order to the core. Raises `PoolClosed`."""
        self.require_open()
        self.tell(event)

    def ask(self, claim: events.Claim) -> "ClaimAnswer | asyncio.Future[ClaimAnswer]":
        """Pass a claim to the core. A warm pool answers at once, without an iteration of the loop."""
        self.require_open()
        self.tell(claim)
        early = self._early.pop(claim.claim, None)
        if early is not None:
            return early
        future: asyncio.Future[ClaimAnswer] = self._bound.loop.create_future()
        self._waiting[claim.claim] = future
        return future

    def abandon(self, claim: ClaimId) -> None:
        """The caller of a claim is gone, perhaps with a grant on its way."""
        self._waiting.pop(claim, None)
        for state in [state for state in self.live.leases.values() if state.claim == claim]:
            del self.live.leases[state.lease]
        self.tell(events.ClaimAbandoned(claim))

    # --- actions out ---

    def _start_slot(self, action: actions.StartSlot) -> None:
        key = pool_key(action.key)
        if (failed := self.launches.failed(key)) is not None:
            self._runner.not_launched(action.slot, key, failed)
            return
        try:
            launch = self._launch_cache.spare(key.key) if action.spare else self._launch_cache.launch(key.key)
        except (PoolError, ValueError) as error:
            self._runner.not_launched(action.slot, key, error)
            return
        running = LiveProcess(action.slot, key, launch, self._clock())
        self.live.slots[action.slot] = running
        running.task = self.work(self._runner.start_slot(running), f"start {action.slot}")
        # A task cancelled before its first step never runs and reports nothing, and its slot would stay CLOSING without
        # end.
        running.task.add_done_callback(lambda _: self._runner.start_over(running), context=Context())

    def _adopt_slot(self, action: actions.AdoptSlot) -> None:
        self.live.slots[action.slot].adopt(pool_key(action.key))

    def _stop_slot(self, action: actions.StopSlot) -> None:
        running = self.live.slots.get(action.slot)
        if running is None:
            return
        running.stopping = True
        # The core orders no close for the parked seats of a process that ends: they end with it.
        for seat in [seat for seat in self.live.seats.values() if seat.slot == action.slot]:
            self._leave_seat(seat)
        if running.transport is None and running.task is not None:
            running.task.cancel()
        else:
            self.work(self._runner.stop_slot(running, hard=action.hard), f"stop {action.slot}")

    def _open_seat(self, action: actions.OpenSeat) -> None:
        # The core hands back what it was given: by `Claim` and `KeepWarm`.
        tools, resume = cast("ToolSet | None", action.tools), cast("SessionMemo | None", action.resume)
        policy = SeatPolicy(self._default_policy)
        seat = LiveSeat(action.seat, action.slot, tools, resume, policy, self._clock())
        self.live.seats[action.seat] = seat
        self.work(self._runner.open_seat(seat), f"open {action.seat}")

    def _close_seat(self, action: actions.CloseSeat) -> None:
        seat = self.live.seats.get(action.seat)
        if seat is None:
            return
        seat.unwanted = True
        if seat.ready_at is not None:
            self.work(self._runner.close_seat(seat), f"close {action.seat}")

    def _grant(self, action: actions.Grant) -> None:
        seat = self.live.seats[action.seat]
        running = self.live.slots[action.slot]
        if seat.session is not None and not running.has_answered:
            seat.session.on_answer(partial(self._first_answer_given, running, action.lease))
        self.live.leases[action.lease] = LeaseState(
            lease=action.lease,
            claim=action.claim,
            generation=action.generation,
            since=self._clock(),
            key=pool_key(action.key).key,
            slot=action.slot,
            seat=action.seat,
        )
        self._answer(action)

    def _first_answer_given(self, running: LiveProcess, lease: LeaseId) -> None:
        # The lease may be released already, after a turn that ended without an answer. The core would ignore the event
        # then, so the next lease on this process must listen for the first answer again.
        if lease not in self.live.leases:
            return
        running.has_answered = True
        self.tell(events.Answered(lease))

    def _answer(self, action: ClaimAnswer) -> None:
        future = self._waiting.pop(action.claim, None)
        if future is None:
            self._early[action.claim] = action
        elif not future.done():
            future.set_result(action)

    def _move(self, action: actions.MoveRequested) -> None:
        state = self.live.leases.get(action.lease)
        if state is not None:
            state.move = action.cause.value
            state.moved.set()

    def _seats_lost(self, action: actions.SeatsLost) -> None:
        transport = self.live.transport(action.slot)
        lost = transport.lost if transport is not None else None
        for lease in action.leases:
            state = self.live.leases.pop(lease, None)
            if state is not None:
                if (seat := self.live.seats.get(state.seat)) is not None:
                    self._leave_seat(seat)
                state.lost = lost or PoolError(action.text or f"the process was ended: {action.cause.value}")
                state.moved.set()

    def _leave_seat(self, seat: LiveSeat) -> None:
        seat.unwanted = True
        if seat.ready_at is None:
            return  # its open is under way, and closes it
        self.live.seats.pop(seat.id, None)
        if seat.ticket is not None:
            seat.ticket.revoke()

    def _probe(self, action: actions.Probe) -> None:
        self.work(self._runner.probe_slot(action.slot), f"probe {action.slot}")

    def _wake_at(self, action: actions.WakeAt) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._set_alarm(max(0.0, action.time - self._clock()))

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
        self.live.failures.pop(key, None)

    def _note(self, action: actions.Notable) -> None:
        provider = "" if action.key is None else pool_key(action.key).key.provider
        cause = "" if action.cause is None else action.cause.value
        self._observer.noted(provider, action.what.value, cause)
        level = LEVELS.get(action.what, logging.INFO)
        log.log(level, "%s: %s %s %s", action.what.value, action.key, cause, action.text)

    def work(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a task of the pool; the `TaskOwner` owns it."""
        if self._ground is None:
            work.close()
        return self._bound.tasks.start(work, name)

    def _work_died(self, name: str, error: BaseException) -> None:
        log.error("pool work %r died of a bug: %r", name, error, exc_info=error)
        self._observer.noted("", "bug", type(error).__name__)
