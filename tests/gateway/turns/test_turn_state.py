"""A turn brings nothing along from the one before it."""

from dataclasses import MISSING, fields
from itertools import count

from ostler.gateway.model.ask import Ask
from ostler.gateway.turns.answer import AnswerStream
from ostler.gateway.turns.pending_calls import PendingCalls
from ostler.gateway.turns.timings import TurnTimings
from ostler.gateway.turns.turn import Turn
from ostler.pool.events import PermissionAsked, TurnEvent
from ostler.pool.keys import TransportKey

KEY = TransportKey("demo", "demo", "/tmp")
GIVEN = {"id", "ask", "answer", "timings", "origin"}
"""What a turn is made of; everything else is its own state."""


async def test_w06_a_new_turn_starts_with_default_approval_state() -> None:
    clock = count()

    def turn(name: str) -> Turn:
        return Turn(name, Ask(KEY, (), "hello", ()), AnswerStream(name), TurnTimings(lambda: float(next(clock))))

    def put(event: TurnEvent) -> None:
        del event

    one = turn("one")
    one.pending_calls = PendingCalls(put, lambda prefix: f"{prefix}_{next(clock)}", 0.0)
    one.pending_calls.close("the turn is over")
    assert await one.pending_calls.permit(PermissionAsked("p1", "remove it", [], {}), hands_over=False) is None
    two = turn("two")
    assert two.ask.rule is None
    assert two.pending_permissions() == []
    assert not two.answer_permission("mcpr_1", allow=True)
    for each in fields(Turn):
        if each.name in GIVEN:
            continue
        fresh = getattr(two, each.name)
        if each.default is not MISSING:
            assert fresh == each.default, each.name
        else:
            assert fresh is not getattr(one, each.name), f"{each.name} is shared by two turns"
