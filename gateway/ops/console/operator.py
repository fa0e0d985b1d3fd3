"""The operators' verbs, addressed by the names that operators type.

Rules:
- No file system call runs on the event loop. A directory is used as typed if the pool knows it by that name; otherwise
  a thread resolves it, with a time limit.
- An order is checked and carried out without an await in between, so the state it was checked against is still true.
  Anything that must be awaited comes before the check.
- An order that the pool would silently ignore (for a process that is gone) is an error here. Seats are kept ready with
  the tools that sessions ask for: no session could use a seat without them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ostler.gateway.model.model_names import Models
from ostler.gateway.ops.console.errors import (
    AmbiguousKey,
    PoolOff,
    UnknownModel,
    UnknownPoolKey,
    UnknownProcess,
    WrongState,
)
from ostler.pool.core.values import SlotState
from ostler.pool.errors import BadDirectory
from ostler.pool.keys import TransportKey, pool_key
from ostler.pool.pool import TransportPool
from ostler.pool.ports import ToolSet
from ostler.pool.why import Why
from ostler.process.probe import BlockingProbe, ProbeFailed

PATIENCE = 5.0
"""Seconds to wait for the disk of a directory that an operator names."""
KILLABLE = frozenset({SlotState.STARTING, SlotState.READY, SlotState.DRAINING})
RECYCLABLE = frozenset({SlotState.READY})


@dataclass(frozen=True, slots=True)
class Named:
    """A key as the operator named it: an alias, `provider/model`, or the whole `provider/model in /cwd`."""

    key: str
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an order, with a sentence that describes it."""

    verb: str
    said: str
    key: str | None = None
    process: int | None = None


class Operator:
    """Carries out operators' orders on one pool."""

    def __init__(
        self, pool: TransportPool, models: Models, work: Path, tool_sets: Sequence[ToolSet | None] = (None,)
    ) -> None:
        """`tool_sets` are the tool sets of seats to keep ready. For each but the first, one seat is enough."""
        self._pool = pool
        self._models = models
        self._work = work
        self._tool_sets = tool_sets
        self._probe: BlockingProbe[str] = BlockingProbe()

    # --- keys ---

    async def warm(self, named: Named, seats: int) -> Done:
        """Keep `seats` seats parked; 0 removes the floor. A key that was never used is looked up first."""
        self._require_shared("warm")
        key = self._wanted(await self._located(named))
        if key not in self._keys():
            key = await self._pool.learn(key)
        for place, tools in enumerate(self._tool_sets):
            self._pool.warm(key, tools, seats if place == 0 else min(seats, 1))
        said = f"{key} keeps {seats} seats ready" if seats else f"{key} keeps no more than what it learns"
        return Done("warm", said, str(key))

    async def pause(self, named: Named | None) -> Done:
        """Make the claims of a key wait; with None, those of every key."""
        key = await self._held(named, "pause")
        self._pool.pause(key)
        return Done("pause", f"{key or 'every key'} is paused: claims wait", None if key is None else str(key))

    async def resume(self, named: Named | None) -> Done:
        """End a pause of a key; with None, that of the pool."""
        key = await self._held(named, "resume")
        self._pool.resume(key)
        return Done("resume", f"{key or 'the pool'} is served again", None if key is None else str(key))

    async def drain(self, named: Named) -> Done:
        """End the processes of a key once their sessions have moved."""
        self._require_shared("drain")
        key = self._one(await self._located(named))
        self._pool.drain(key)
        return Done("drain", f"the processes of {key} end when their sessions have moved", str(key))

    async def reconnect(self, named: Named) -> Done:
        """Forget the start failures of a key, so that its next start is tried at once."""
        self._require_shared("reconnect")
        key = self._one(await self._located(named))
        self._pool.reconnect(key)
        return Done("reconnect", f"the failures of {key} are forgotten; its next start is tried at once", str(key))

    async def why(self, named: Named) -> Why:
        """Explain why the key has as many warm seats as it has. Works for a model without processes too: it may be the
        one that cannot be started."""
        located = await self._located(named)
        if not self._matching(located) and self._models.resolve(located.key) is None:
            raise UnknownPoolKey(named.key, [str(key) for key in self._keys()])
        key = self._wanted(located)
        trouble = await self._pool.trouble_with(key)
        return replace(self._pool.why(key), trouble=trouble)

    # --- processes ---

    def recycle(self, number: int) -> Done:
        """Replace a process; its successor starts first."""
        key = self._process(number, "recycle", RECYCLABLE)
        self._pool.recycle(number)
        return Done("recycle", f"process {number} is replaced: its successor starts first", key, number)

    def kill(self, number: int) -> Done:
        """End a process now, with every turn on it."""
        key = self._process(number, "kill", KILLABLE)
        self._pool.kill(number)
        return Done("kill", f"process {number} was killed, and every turn on it", key, number)

    # --- finding ---

    async def _located(self, named: Named) -> Named:
        """Name the key as the pool does, with its directory resolved. Raises `BadDirectory` if the disk does not
        answer."""
        name, cwd = parts(named)
        if cwd is None or self._matching(Named(name, cwd)):
            return Named(name, cwd)
        try:
            return Named(name, await self._probe.find(cwd, partial(one_name, cwd), PATIENCE))
        except ProbeFailed as error:
            raise BadDirectory(cwd, error.why) from error

    def _one(self, named: Named) -> TransportKey:
        """The one key of the pool that matches."""
        found = self._matching(named)
        if not found:
            raise UnknownPoolKey(named.key, [str(key) for key in self._keys()])
        if len(found) > 1:
            raise AmbiguousKey(named.key, [key.cwd for key in found])
        return found[0]

    async def _held(self, named: Named | None, verb: str) -> TransportKey | None:
        if named is None:
            return None
        self._require_shared(verb)
        return self._one(await self._located(named))

    def _require_shared(self, verb: str) -> None:
        if not self._pool.snapshot().enabled:
            raise PoolOff(verb)

    def _wanted(self, named: Named) -> TransportKey:
        """The matching key of the pool, or else a new key for it."""
        found = self._matching(named)
        if len(found) > 1:
            raise AmbiguousKey(named.key, [key.cwd for key in found])
        if found:
            return found[0]
        name, cwd = parts(named)
        target = self._models.resolve(name)
        if target is None:
            raise UnknownModel(name, sorted(self._models.providers))
        return TransportKey(*target, cwd or str(self._work))

    def _matching(self, named: Named) -> list[TransportKey]:
        name, cwd = parts(named)
        target = self._models.resolve(name)
        alike = [key for key in self._keys() if (key.provider, key.model) == target]
        return alike if cwd is None else [key for key in alike if key.cwd == cwd]

    def _keys(self) -> list[TransportKey]:
        views = self._pool.snapshot().core.keys
        return list(dict.fromkeys(pool_key(view.key).key for view in views))

    def _process(self, number: int, verb: str, states: frozenset[SlotState]) -> str:
        known = self._processes()
        if number not in known:
            raise UnknownProcess(number, sorted(known))
        state, key = known[number]
        if state not in states:
            raise WrongState(number, verb, state.value)
        return key

    def _processes(self) -> Mapping[int, tuple[SlotState, str]]:
        core = self._pool.snapshot().core
        found = {int(slot.slot): (slot.state, str(view.key)) for view in core.keys for slot in view.slots}
        return found | {int(slot.slot): (slot.state, "spare") for slot in core.spares}


def parts(named: Named) -> tuple[str, str | None]:
    """(name, cwd): the directory may be part of the key's text, as the tables print it."""
    name, _, inside = named.key.partition(" in ")
    return name, named.cwd or inside or None


def one_name(cwd: str) -> str:
    """Resolve a directory, which need not exist. Thread-safe. Raises `BadDirectory`."""
    try:
        return str(Path(cwd).resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise BadDirectory(cwd, "nobody can tell where it leads") from error
