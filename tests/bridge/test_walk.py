"""No call is ever seen by the wrong dispatcher, whatever the order of events; and the tests that say so can fail."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.bridge_walk import NAMES, PROCESSES, SLOTS, Core, Walk, core

slots = st.integers(0, SLOTS - 1)
processes = st.integers(0, PROCESSES - 1)
names = st.integers(0, len(NAMES) - 1)
idents = st.integers(1, 4)


class Routing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.walk = Walk(core())
        for number in range(SLOTS):
            self.walk.issue(number)

    @rule(number=slots)
    def issue(self, number: int) -> None:
        self.walk.issue(number)

    @rule(number=slots, first=names, count=st.integers(0, len(NAMES)))
    def publish(self, number: int, first: int, count: int) -> None:
        self.walk.publish(number, first, count)

    @rule(number=slots)
    def unpublish(self, number: int) -> None:
        self.walk.unpublish(number)

    @rule(number=slots)
    def revoke(self, number: int) -> None:
        self.walk.revoke(number)

    @rule(number=slots, process=processes)
    def own(self, number: int, process: int) -> None:
        self.walk.own(number, process)

    @rule(number=slots, process=processes, parent=processes)
    def greet(self, number: int, process: int, parent: int) -> None:
        self.walk.greet(number, process, parent)

    @rule(number=slots)
    def drop(self, number: int) -> None:
        self.walk.drop(number)

    @rule(number=slots, name=names, ident=idents)
    def call(self, number: int, name: int, ident: int) -> None:
        self.walk.call(number, name, ident)

    @rule(number=slots, name=names)
    def native(self, number: int, name: int) -> None:
        self.walk.native(number, name)

    @rule(number=slots)
    def tools(self, number: int) -> None:
        self.walk.tools(number)

    @rule(which=st.integers(0, 50))
    def finish(self, which: int) -> None:
        self.walk.finish(which)

    @rule(number=slots, ident=idents)
    def abort(self, number: int, ident: int) -> None:
        self.walk.abort(number, ident)

    @invariant()
    def consistent(self) -> None:
        self.walk.check()


TestRouting = Routing.TestCase
TestRouting.settings = settings(max_examples=25, stateful_step_count=60, deadline=None)


def stroll(code: Core, seed: int, steps: int, sessions: int = SLOTS, *, tells_processes: bool = True) -> None:
    """A long random walk; fewer sessions make rare meetings common."""
    draw = random.Random(seed)
    walk = Walk(code, tells_processes=tells_processes)
    for number in range(sessions):
        walk.issue(number)
    weighted = (
        [walk.call] * 6 + [walk.finish] * 4 + [walk.greet] * 3 + [walk.publish] * 3 + [walk.tools] * 2 + [walk.abort]
    )
    steps_of_all = [*weighted, *[walk.drop] * 3, walk.issue, walk.unpublish, walk.revoke, walk.own, walk.native]
    ranges = {"name": len(NAMES), "first": len(NAMES), "process": PROCESSES, "parent": PROCESSES, "ident": 4}
    for _ in range(steps):
        step = draw.choice(steps_of_all)
        wanted = step.__code__.co_varnames[1 : step.__code__.co_argcount]
        step(*(draw.randrange(ranges.get(argument, sessions if argument == "number" else 4)) for argument in wanted))
        walk.check()


@pytest.mark.parametrize("seed", range(4))
def test_w02_no_call_is_seen_by_the_wrong_dispatcher(seed: int) -> None:
    stroll(core(), seed, 5_000)
    stroll(core(), seed, 2_000, sessions=3)
    stroll(core(), seed, 2_000, sessions=3, tells_processes=False)


MUTANTS = {
    "foreign processes are welcome": (
        "bindings",
        "if self._foreign(place.binding, peer):",
        "if False:",
    ),
    "a thief may sit beside the owner": (
        "bindings",
        "if taken and not same:",
        "if False:",
    ),
    "a thief may take the place of a process that is gone": (
        "bindings",
        "taken = place.process is not None or place.connection is not None",
        "taken = place.connection is not None",
    ),
    "a displaced connection keeps its place": (
        "bindings",
        ("            del self._by_connection[displaced]\n        place.connection = connection"),
        "            pass\n        place.connection = connection",
    ),
    "every newcomer is taken for the old client": (
        "bindings",
        "resumed=same)",
        "resumed=True)",
    ),
    "a revoked token stays good": (
        "bindings",
        "self._places.pop(digest)",
        "self._places[digest]",
    ),
    "a hello gets the first binding": (
        "bindings",
        "return AdmittedClient(place.binding,",
        "return AdmittedClient(next(iter(self._places.values())).binding,",
    ),
    "a closed connection holds its place": (
        "bindings",
        "        place.connection = None\n        return place.binding",
        "        return place.binding",
    ),
    "only the peer itself counts, not its ancestors": (
        "bindings",
        "return owner in self.ancestry",
        "return owner == self.ancestry[0]",
    ),
    "revoked connections keep speaking": (
        "bindings",
        ("            del self._by_connection[place.connection]\n        return place.binding, place.connection"),
        "            pass\n        return place.binding, place.connection",
    ),
    "the first dispatcher stays": (
        "binding",
        "self._publication = Publication(",
        "self._publication = self._publication or Publication(",
    ),
    "unpublishing forgets the dispatcher stays": (
        "binding",
        "        self._publication = None\n        ended",
        "        ended",
    ),
    "ended calls stay in flight": (
        "binding",
        "        self.calls.clear()\n",
        "",
    ),
    "every end counts": (
        "binding",
        "            return False\n        self.calls.discard",
        "            return True\n        self.calls.discard",
    ),
    "any name is dispatched": (
        "binding",
        "if name not in self.tools.names:",
        "if False:",
    ),
    "calls without end": (
        "binding",
        "if len(self.calls) >= self.max_calls:",
        "if False:",
    ),
    "all sessions share their calls": (
        "binding",
        "self.calls: set[BoundCall] = set()",
        'self.calls = globals().setdefault("SHARED", set())',
    ),
    "a revoked binding says something else": (
        "binding",
        ("        if self.state is BindingState.REVOKED:\n            raise NotBound\n"),
        "",
    ),
    "new tools are not taken over": (
        "binding",
        "            return False\n        self.tools = tools\n",
        "            return False\n",
    ),
    "a revoked session still answers": (
        "mcp",
        "if self.binding.state is BindingState.REVOKED:",
        "if False:",
    ),
    "one id, two calls": (
        "mcp",
        "if request_id in self.calls:",
        "if False:",
    ),
    "a cancelled call is still held": (
        "mcp",
        "        self.binding.finish(call)\n        return [End",
        "        return [End",
    ),
    "a cancelled call runs on": (
        "mcp",
        "return [End(call)]",
        "return []",
    ),
    "a new client inherits the old one's calls": (
        "mcp",
        "        self.calls.clear()\n        self.version",
        "        self.version",
    ),
    "answers for the dead reach the living": (
        "conversation",
        "        self._held.clear()\n        for call",
        "        for call",
    ),
    "a new client is told the old one's news": (
        "conversation",
        "        if not resumed:\n",
        "        if False:\n",
    ),
    "a lost connection is still written to": (
        "conversation",
        "        self._outlet = None\n\n    def discard",
        "        pass\n\n    def discard",
    ),
}


def survives(code: Core) -> bool:
    try:
        for seed in range(3):
            stroll(code, seed, 4_000, sessions=2)
            stroll(code, seed, 2_000, sessions=2, tells_processes=False)
            stroll(code, seed, 1_500)
    except Exception:  # noqa: BLE001 - a mutant may break in any way; broken is caught
        return False
    return True


def test_the_walk_that_kills_mutants_lets_the_original_live() -> None:
    assert survives(core())


@pytest.mark.parametrize("mutant", MUTANTS)
def test_w02_every_mutant_of_the_routing_is_killed(mutant: str) -> None:
    name, old, new = MUTANTS[mutant]
    assert not survives(core({name: (old, new)}))
