"""`TransportPool`: the public calls, and the thin shell around the core.

Rules:
- One loop owns everything: no locks, no `await` between what the core decides and what is recorded here. Calls from
  other loops are run on it; threads use `ostler.pool.blocking`.
- `handle` is never re-entered: events that an action causes wait until the actions before it are done.
- Building a pool starts nothing. `start` begins to warm in the background and returns at once.
- Only the core and `shutdown` end a shared process; releasing a lease never does.
"""

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

from ostler.metrics.loops import Loops
from ostler.pool.core import events
from ostler.pool.core.actions import Grant, Refuse
from ostler.pool.core.reasons import reasons
from ostler.pool.core.values import LeaseId, SettingsError, SlotId
from ostler.pool.errors import AgentStartFailed, NoToolPort, PoolError
from ostler.pool.keys import PoolKey, TransportKey
from ostler.pool.launch.configuration import PoolSettings, Share
from ostler.pool.launch.directories import Directories
from ostler.pool.launch.edition import SettingsEdition
from ostler.pool.lease import Lease, Waited
from ostler.pool.observer import Guarded, NoPoolObserver, Observer
from ostler.pool.order import SessionMemo
from ostler.pool.owner_loop import OwnerLoop
from ostler.pool.permission import deny
from ostler.pool.ports import PermissionPolicy, ToolOffer, ToolPort, Tools, ToolSet
from ostler.pool.provider import Provider
from ostler.pool.runner.engine import Engine
from ostler.pool.runner.live_process import StartTransport
from ostler.pool.runner.live_seat import LiveSeat
from ostler.pool.runner.refusals import refusal_error
from ostler.pool.runner.warm_keys import WarmKeys
from ostler.pool.snapshot import PoolSnapshot, UnderWay, snapshot, under_way
from ostler.pool.why import GRANTED, ClaimDecision, RecentClaims, Why
from ostler.process.probe import PATIENCE

log = logging.getLogger(__name__)

KeyOrder: TypeAlias = Callable[[PoolKey], events.CoreEvent]


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """One call of `lease`, as it is passed from the first try to the fallback."""

    key: TransportKey
    tools: ToolSet | None
    resume: SessionMemo | None
    owner: str
    deadline: float
    parent: int | None
    policy: PermissionPolicy | None
    offer: ToolOffer | None
    """The tools that are published as soon as the seat is granted."""
    tool_context: object
    process_owner: str


class TransportPool:
    """Warm agent processes, shared by many sessions. An async context manager around `start` and `shutdown`."""

    def __init__(
        self,
        settings: PoolSettings,
        *,
        providers: Mapping[str, Provider],
        start_transport: StartTransport,
        environ: Mapping[str, str],
        tool_port: ToolPort | None = None,
        policy: PermissionPolicy = deny,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        loops: Loops | None = None,
    ) -> None:
        self._settings = settings
        self._loops = Loops() if loops is None else loops
        self._observer = Guarded(NoPoolObserver() if observer is None else observer)
        edition = SettingsEdition(settings, providers, environ)
        self._directories = Directories(edition.resolve_directory, clock)
        self._clock = clock
        self._tool_port = tool_port
        self._claim_ids = itertools.count(1)
        self._decisions = RecentClaims()
        self.owner_loop = OwnerLoop()
        self._closing: asyncio.Task[None] | None = None
        self._engine = Engine(
            edition,
            start_transport=start_transport,
            tool_port=tool_port,
            default_policy=policy,
            observer=self._observer,
            clock=clock,
            chance=chance,
            loops=self._loops,
        )
        self._deferred: dict[TransportKey, list[KeyOrder]] = {}
        """Orders for keys that a thread checks at the moment."""
        self._warm_keys = WarmKeys(self._engine, self._canonical, self._observer)

    # --- life ---

    async def start(self) -> None:
        """Bind the pool to the running loop and begin to warm the configured keys. Returns at once."""
        self.owner_loop.bind(asyncio.get_running_loop())
        self._engine.start(self.owner_loop.loop)
        self._engine.work(self._warm_configured(), "warm what is configured")
        self._engine.work(self._retry_warm_keys(), "watch of floors")

    async def _warm_configured(self) -> None:
        """Give the configured keys their floors, and remove the floors of keys that are no longer configured."""
        await self._warm_keys.take(self._settings.warm if self._settings.enabled else ())

    async def _retry_warm_keys(self) -> None:
        loop = self._loops.add("the watch of the keys to be kept warm")
        await loop.repeat(lambda: self._settings.watch_every, self._warm_keys.try_again)

    async def shutdown(self) -> None:
        """End every process and its descendants. Idempotent; afterwards every call but `snapshot` raises
        `PoolClosed`.
        """
        await self.owner_loop.run(self._shutdown())

    async def _shutdown(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._engine.stop(), name="pool shutdown")
        await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    # --- claims ---

    async def lease(
        self,
        key: TransportKey,
        *,
        tools: ToolSet | Tools | None = None,
        tool_context: object = None,
        owner: str = "",
        deadline: float | None = None,
        parent: int | None = None,
        policy: PermissionPolicy | None = None,
        resume: SessionMemo | None = None,
        process_owner: str = "",
    ) -> Lease:
        """Lease a seat: an agent session for this caller alone, on a process that others may share.

        `tools`: functions that answer the calls of this session and of no other; `tool_context` is what they find as
        the session of their call. A `ToolSet` holds definitions only: publish a dispatcher on `Lease.ticket`. None: a
        session without tools of the gateway; an empty set: tools may be published later.

        `owner`: served in turn with other owners when seats are short. `parent`: the lease of the turn that makes this
        call, if there is one. `resume`: a session to load; `Lease.restored` tells whether the agent did.
        `process_owner`: where the pool shares by owner (`PoolSettings.share`), the process serves sessions of this
        owner only. Raises `NoToolPort` for tools without a `tool_port`.
        """
        wanted, offer = self._wanted(key, tools)
        until = self._clock() + (self._settings.claim_deadline if deadline is None else deadline)
        request = LeaseRequest(key, wanted, resume, owner, until, parent, policy, offer, tool_context, process_owner)
        return await self.owner_loop.run(self._lease(request))

    def _wanted(self, key: TransportKey, tools: ToolSet | Tools | None) -> tuple[ToolSet | None, ToolOffer | None]:
        """The tools that the seat is opened with, and the offer that the pool publishes on it."""
        if tools is None or (isinstance(tools, ToolSet) and not tools.definitions):
            return tools, None
        if self._tool_port is None:
            raise NoToolPort(key)
        if isinstance(tools, ToolSet):
            return tools, None
        offer = self._tool_port.offer(tools)
        return ToolSet(tuple(offer.definitions)), offer

    async def _lease(self, request: LeaseRequest) -> Lease:
        known = await self._canonical(request.key, request.deadline - self._clock())
        if known is not request.key:
            request = replace(request, key=known)
        # A key that cannot be started as configured fails here, before it counts as a failure of the pool.
        await self._engine.launches.prepare(PoolKey(request.key), request.deadline - self._clock())
        shared = self._settings.enabled  # read only now: a reload may have switched it while `prepare` waited
        key = self._shared_key(request) if shared else PoolKey(request.key, private=True)
        try:
            return await self._seat(request, key, None)
        except AgentStartFailed as error:
            # If this machine has no room for a process of the pool, it has none for a process outside the pool either.
            if error.shortage or not (shared and self._settings.fallback and error.before_ready):
                raise
            log.error(  # noqa: TRY400 (the line contains the whole error; a trace into our own claim adds nothing)
                "the pool has no process for %s, trying one for this session alone: %s", request.key, error
            )
            self._observer.noted(request.key.provider, "fallback", error.phase.value)
        return await self._seat(request, PoolKey(request.key, private=True), "fallback")

    def _shared_key(self, request: LeaseRequest) -> PoolKey:
        return PoolKey(request.key, owner=request.process_owner if self._settings.share is Share.OWNER else None)

    async def _seat(self, request: LeaseRequest, key: PoolKey, warmth: str | None) -> Lease:
        while True:
            # Before every try, because a reload may have come between two of them.
            await self._engine.launches.prepare(key, max(0.0, request.deadline - self._clock()))
            self._engine.launches.register(key)
            asked = self._clock()
            grant = await self._claim(key, request)
            lease = self._hand_over(grant, request, key, asked, warmth)
            if lease is not None:
                return lease

    async def _claim(self, key: PoolKey, request: LeaseRequest) -> Grant:
        claim = next(self._claim_ids)
        parent = None if request.parent is None else LeaseId(request.parent)
        answer = await self._engine.claim(
            events.Claim(
                claim, key, request.tools, request.owner, request.deadline, parent, not key.private, request.resume
            )
        )
        if isinstance(answer, Refuse):
            self._observer.refused(key.key, answer.kind.value)
            refused = ClaimDecision(self._clock(), answer.kind.value, queue=answer.waited, text=answer.text)
            self._decisions.record(key, refused)
            failure = self._engine.failures.get(key)
            raise refusal_error(answer, key, None if failure is None else failure.error)
        return answer

    def _hand_over(
        self, grant: Grant, request: LeaseRequest, key: PoolKey, asked: float, warmth: str | None
    ) -> Lease | None:
        """Turn a grant into a lease. None if the process died after the grant; then only time was lost."""
        seat = self._engine.granted(grant)
        if seat is None or seat.session is None or seat.process.transport is None:
            self._engine.tell(events.LeaseReleased(grant.lease))
            return None
        if request.policy is not None:
            seat.policy.answer = request.policy
        if request.offer is not None and seat.ticket is not None:
            seat.ticket.publish(request.offer.definitions, request.offer.dispatcher, request.tool_context)
        named = warmth or grant.warmth.value
        waited = waited_for(asked, self._clock(), seat)
        self._observer.claimed(key.key, named, grant.miss.value, waited.total)
        split = (waited.queue, waited.spawn, waited.session_new)
        self._decisions.record(key, ClaimDecision(self._clock(), GRANTED, named, grant.miss.value, *split))
        return Lease(
            grant,
            seat,
            session=seat.session,
            transport=seat.process.transport,
            pooled=not key.private,
            warmth=named,
            waited=waited,
            owner_loop=self.owner_loop,
            release=self._release,
            dropped=self._dropped,
        )

    def _release(self, seat: LiveSeat) -> None:
        self.owner_loop.tell(self._engine.release, seat)

    def _dropped(self, seat: LiveSeat) -> None:
        """Called by the garbage collector, on any thread and in the middle of any code: only post the work."""
        self.owner_loop.post(self._take_back, seat)

    def _take_back(self, seat: LiveSeat) -> None:
        key = seat.process.key.key
        log.warning("a lease of %s was dropped without a release; releasing it", key)
        self._observer.noted(key.provider, "dropped_lease", "")
        self._engine.release(seat)

    async def _canonical(self, key: TransportKey, patience: float) -> TransportKey:
        """The key under its canonical name and directory. Raises `UnknownProvider`, `BadDirectory`."""
        named = self._engine.launches.edition.named(key)
        cwd = self._directories.recall(key.cwd)
        return placed(named, await self._directories.find(key.cwd, patience) if cwd is None else cwd)

    # --- operator's orders; on the pool's own loop ---
    # These calls read no disk. An order for a known key acts at once, even if the key's disk is dead. For an unknown
    # key the order runs after a thread has checked the key, and a failed check is logged. Call `learn` first to get the
    # error.

    async def learn(self, key: TransportKey) -> TransportKey:
        """Check and register a key, so that the orders below act on it at once. Raises what `lease` raises before it
        claims.
        """
        return await self.owner_loop.run(self._learn(key))

    async def _learn(self, key: TransportKey) -> TransportKey:
        self._engine.require_open()
        known = PoolKey(await self._canonical(key, PATIENCE))
        await self._engine.launches.prepare(known, PATIENCE)
        self._engine.launches.register(known)
        return known.key

    def warm(self, key: TransportKey, tools: ToolSet | Tools | None = None, seats: int = 1) -> None:
        """Keep at least this many seats parked from now on; 0 removes the floor. Raises `SettingsError` for less than
        0.
        """
        if seats < 0:
            raise SettingsError(f"{key}: to keep {seats} seats warm means nothing")
        wanted, _ = self._wanted(key, tools)
        self._order(key, lambda known: events.KeepWarm(known, wanted, seats))

    def pause(self, key: TransportKey | None = None) -> None:
        """Grant and start nothing for the key, or for all keys; claims wait."""
        if key is None:
            self._engine.order(events.Pause())
        else:
            self._order(key, events.Pause)

    def resume(self, key: TransportKey | None = None) -> None:
        """Undo `pause` for the key, or for all keys."""
        if key is None:
            self._engine.order(events.Resume())
        else:
            self._order(key, events.Resume)

    def drain(self, key: TransportKey) -> None:
        """Let the key's processes end when their sessions have moved or ended."""
        self._order(key, events.DrainKey)

    def cool(self, key: TransportKey) -> None:
        """As `drain`, and keep nothing warm for the key, not even what was learned, until a caller asks for it
        again.
        """
        self._order(key, events.StopWarming)

    def reconnect(self, key: TransportKey) -> None:
        """Forget the key's start failures, because their cause has been fixed."""
        self._order(key, events.Reconnect)

    def recycle(self, slot: int) -> None:
        """Replace one process: its successor is ready before it drains."""
        self._engine.order(events.Recycle(SlotId(slot)))

    def kill(self, slot: int) -> None:
        """End one process now, with every session on it."""
        self._engine.order(events.Kill(SlotId(slot)))

    def reload(self, settings: PoolSettings, environ: Mapping[str, str]) -> None:
        """Take new settings or a new environment: keys that are made differently now get new processes, the old ones
        drain.

        Limits, the keys to keep warm and `enabled` are taken too. Processes over a lowered cap end when they have no
        leases; with `enabled` off, the shared processes end as their sessions move. Raises `SettingsError` for limits
        under which a known key could not start, and then nothing has changed.
        """
        self._engine.reload(settings, environ)
        switched_off = self._settings.enabled and not settings.enabled
        # A process that served several owners must not pass for one owner's, nor the reverse.
        switched_off = switched_off or self._settings.share is not settings.share
        self._settings = settings
        self._directories = Directories(self._engine.launches.edition.resolve_directory, self._clock)
        if switched_off:
            self._engine.cool_shared()
        # In parallel: a key whose disk is slow must not keep another key cold.
        self._engine.work(self._engine.launches.renew(), "take new settings")
        self._engine.work(self._warm_configured(), "warm what is configured now")

    def snapshot(self) -> "PoolSnapshot":
        """The contents of the pool, as plain data."""
        settings = self._settings
        return snapshot(self._engine, enabled=settings.enabled, share=settings.share.value, now=self._clock())

    def under_way(self) -> list[UnderWay]:
        """The starts and opens that have not ended yet, and for how long they have lasted."""
        return under_way(self._engine, self._clock())

    def why(self, key: TransportKey) -> Why:
        """Why the key is as warm as it is, and how its last claims were answered. Read-only."""
        now, known = self._clock(), self._seen(key)
        variants = dict.fromkeys([*map(partial(PoolKey, known), (False, True)), *self._engine.launches.known_as(known)])
        claims, held = self._decisions.views(variants, now), None
        for variant in variants:
            if variant.private is not self._settings.enabled:
                held = held or reasons(self._engine.core.state, variant)
        return Why(str(known), known.provider, known.model, known.cwd, self._settings.enabled, held, claims)

    async def trouble_with(self, key: TransportKey) -> str:
        """Why no process of this key can be started now (not installed, a bad setting), as a sentence; empty if no
        obstacle is known. Starts nothing; files are read on a thread.
        """
        launches = self._engine.launches
        return await self.owner_loop.run(launches.trouble(PoolKey(launches.edition.named(key))))

    # --- helpers ---

    def _order(self, key: TransportKey, order: KeyOrder) -> None:
        """Perform an order now if the core knows the key, else after a thread has checked it. Orders for one key are
        performed in the order given, including those given while it was being checked.
        """
        self._engine.require_open()
        key = self._seen(key)
        if key in self._deferred:
            self._deferred[key].append(order)
        elif self._engine.launches.knows(PoolKey(key)):
            self._carry_out(key, order)
        else:
            # Start the work before adding to `_deferred`; it begins in a later step. If starting fails, no order must
            # be left waiting.
            self._engine.work(self._carry_out_deferred(key), f"orders for {key}")
            self._deferred[key] = [order]

    async def _carry_out_deferred(self, key: TransportKey) -> None:
        try:
            known = await self._learn(key)
            self._engine.require_open()
        except (PoolError, ValueError) as error:
            log.warning("what was ordered for %s is not done: %s", key, error)
            self._observer.noted(key.provider, "order_failed", type(error).__name__)
            return
        finally:
            orders = self._deferred.pop(key)
        for order in orders:
            self._carry_out(known, order)

    def _carry_out(self, key: TransportKey, order: KeyOrder) -> None:
        """Apply an order to the processes of all owners of the key, except one about what is kept warm."""
        event = order(PoolKey(key))
        self._engine.order(event)
        if not isinstance(event, events.KeepWarm):
            for known in self._engine.launches.known_as(key):
                if known.owner is not None:
                    self._engine.order(order(known))

    def _seen(self, key: TransportKey) -> TransportKey:
        """The key as the pool knows it, as far as that is known without reading the disk."""
        key = self._engine.launches.edition.named(key)
        if self._engine.launches.known_as(key):
            return key
        cwd = self._directories.recall(key.cwd)
        return key if cwd is None else placed(key, cwd)


def placed(key: TransportKey, cwd: str) -> TransportKey:
    """The key with this directory."""
    return key if cwd == key.cwd else TransportKey(key.provider, key.model, cwd)


def waited_for(asked: float, granted: float, seat: LiveSeat) -> Waited:
    """Split a claim's wait into its own share of the process start and of the session open, and the rest."""
    ready_at = seat.process.ready_at
    process_up = asked if ready_at is None else max(asked, min(ready_at, granted))
    opening = max(process_up, seat.begun)
    session_up = opening if seat.ready_at is None else max(opening, min(seat.ready_at, granted))
    spawn, session_new = process_up - asked, session_up - opening
    return Waited(queue=max(0.0, granted - asked - spawn - session_new), spawn=spawn, session_new=session_new)
