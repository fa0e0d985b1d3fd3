"""The operators' verbs, by the names that people type.

Rules:
- No disk is looked at on the loop. A directory is taken as it is typed where the pool has it by that name; else a
  thread looks where it leads, and is waited for with patience.
- An order is checked against the same moment of the pool in which it is carried out, with no await between, so what was
  answered with yes was done; what has to be waited for comes before that.
- What the pool would silently ignore (a process that is gone) is an error here. A seat that is kept ready has the tools
  that sessions come with: one without them is nobody's.
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
from ostler.pool.keys import TransportKey
from ostler.pool.pool import TransportPool
from ostler.pool.ports import ToolSet
from ostler.pool.runner.live import pool_key
from ostler.pool.why import Why
from ostler.process.probe import BlockingProbe, ProbeFailed

PATIENCE = 5.0
"""Seconds for the disk of a directory that an operator names."""
KILLABLE = frozenset({SlotState.STARTING, SlotState.READY, SlotState.DRAINING})
RECYCLABLE = frozenset({SlotState.READY})


@dataclass(frozen=True, slots=True)
class Named:
    """A key as somebody named it: an alias, `provider/model`, or the whole `provider/model in /cwd`."""

    key: str
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What was ordered, in a sentence."""

    verb: str
    said: str
    key: str | None = None
    process: int | None = None


class Operator:
    """Gives orders to one pool."""

    def __init__(
        self, pool: TransportPool, models: Models, work: Path, outfits: Sequence[ToolSet | None] = (None,)
    ) -> None:
        """`outfits`: the tools of seats that are kept ready; of each but the first one seat is enough."""
        self._pool = pool
        self._models = models
        self._work = work
        self._outfits = outfits
        self._looks: BlockingProbe[str] = BlockingProbe()

    # --- keys ---

    async def warm(self, named: Named, seats: int) -> Done:
        """Keep so many seats parked; 0 takes the floor away. A key that nobody has used yet is looked up first."""
        self._require_shared("warm")
        key = self._wanted(await self._located(named))
        if key not in self._keys():
            key = await self._pool.learn(key)
        for place, tools in enumerate(self._outfits):
            self._pool.warm(key, tools, seats if place == 0 else min(seats, 1))
        said = f"{key} keeps {seats} seats ready" if seats else f"{key} keeps no more than what it learns"
        return Done("warm", said, str(key))

    async def pause(self, named: Named | None) -> Done:
        """Claims of the key wait; of every key with None."""
        key = await self._held(named, "pause")
        self._pool.pause(key)
        return Done("pause", f"{key or 'every key'} is paused: claims wait", None if key is None else str(key))

    async def resume(self, named: Named | None) -> Done:
        """Take a pause back."""
        key = await self._held(named, "resume")
        self._pool.resume(key)
        return Done("resume", f"{key or 'the pool'} is served again", None if key is None else str(key))

    async def drain(self, named: Named) -> Done:
        """Let the key's processes end when their sessions have moved."""
        self._require_shared("drain")
        key = self._one(await self._located(named))
        self._pool.drain(key)
        return Done("drain", f"the processes of {key} end when their sessions have moved", str(key))

    async def reconnect(self, named: Named) -> Done:
        """Forget the key's start failures."""
        self._require_shared("reconnect")
        key = self._one(await self._located(named))
        self._pool.reconnect(key)
        return Done("reconnect", f"the failures of {key} are forgotten; its next start is tried at once", str(key))

    async def why(self, named: Named) -> Why:
        """Why the key is as warm as it is; also of a model that the pool holds nothing of, for it may be the one that
        cannot be started."""
        located = await self._located(named)
        if not self._matching(located) and self._models.resolve(located.key) is None:
            raise UnknownPoolKey(named.key, [str(key) for key in self._keys()])
        key = self._wanted(located)
        trouble = await self._pool.trouble_with(key)
        return replace(self._pool.why(key), trouble=trouble)

    # --- processes ---

    def recycle(self, number: int) -> Done:
        """Replace one process; its successor comes up first."""
        key = self._process(number, "recycle", RECYCLABLE)
        self._pool.recycle(number)
        return Done("recycle", f"process {number} is replaced: its successor starts first", key, number)

    def kill(self, number: int) -> Done:
        """End one process now."""
        key = self._process(number, "kill", KILLABLE)
        self._pool.kill(number)
        return Done("kill", f"process {number} was killed, and every turn on it", key, number)

    # --- finding ---

    async def _located(self, named: Named) -> Named:
        """The key as the pool would call it: its directory by its one name. Raises `BadDirectory` for a dead disk."""
        name, cwd = parts(named)
        if cwd is None or self._matching(Named(name, cwd)):
            return Named(name, cwd)
        try:
            return Named(name, await self._looks.find(cwd, partial(one_name, cwd), PATIENCE))
        except ProbeFailed as error:
            raise BadDirectory(cwd, error.why) from error

    def _one(self, named: Named) -> TransportKey:
        """A key that the pool holds."""
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
        """A key that the pool holds, or one that it is to hold from now on."""
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
    """(name, cwd): the directory may stand in the key's own text, as every table prints it."""
    name, _, inside = named.key.partition(" in ")
    return name, named.cwd or inside or None


def one_name(cwd: str) -> str:
    """Where a directory leads; it need not be there yet. On any thread. Raises `BadDirectory`."""
    try:
        return str(Path(cwd).resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise BadDirectory(cwd, "nobody can tell where it leads") from error
