"""A turn's events told in the moment they come: in order, each once, what comes together joined, to one consumer."""

import asyncio
from collections.abc import Callable

import pytest

from ostler.pool.agent.turn import AT_ONCE, SOFT, AgentTurn
from ostler.pool.events import Finished, Other, StopReason, Text, ToolStarted, TurnEvent
from tests.support.waiting import soon

END = Finished(StopReason.DONE)
ASIDE = Other("aside", {})


def never() -> None:
    raise AssertionError("nobody cancels this turn")


def into(heard: list[TurnEvent]) -> Callable[[TurnEvent], bool]:
    """Takes everything but `ASIDE`."""

    def take(event: TurnEvent) -> bool:
        if event is ASIDE:
            return False
        heard.append(event)
        return True

    return take


async def test_events_are_told_in_order_and_the_end_is_returned() -> None:
    turn, heard = AgentTurn(never), list[TurnEvent]()
    turn.put(Text("before"))
    hearing = asyncio.ensure_future(turn.deliver_to(into(heard)))
    await asyncio.sleep(0)
    assert heard == [Text("before")]
    turn.put(Text("a"))
    turn.put(Text("b"))
    assert heard == [Text("before")], "what a consumer does is not done in the reader's call"
    await asyncio.sleep(0)
    assert heard == [Text("before"), Text("a"), Text("b")]
    turn.put(Text("c"))
    turn.end(END)
    assert await soon(hearing, "the end") is END
    assert heard[3:] == [Text("c")]


async def test_what_is_not_taken_is_returned_and_what_follows_waits() -> None:
    turn, heard = AgentTurn(never), list[TurnEvent]()
    hearing = asyncio.ensure_future(turn.deliver_to(into(heard)))
    await asyncio.sleep(0)
    for event in (Text("a"), ASIDE, Text("b")):
        turn.put(event)
    assert await soon(hearing, "what was not taken") is ASIDE
    assert heard == [Text("a")]
    turn.put(Text("c"))
    turn.end(END)
    assert await soon(turn.deliver_to(into(heard)), "the end") is END
    assert heard == [Text("a"), Text("b"), Text("c")]


async def test_a_flood_is_joined_before_it_is_told() -> None:
    turn, heard = AgentTurn(never), list[TurnEvent]()
    hearing = asyncio.ensure_future(turn.deliver_to(into(heard)))
    await asyncio.sleep(0)
    words = [f"{number} " for number in range(SOFT * 4)]
    for word in words:
        turn.put(Text(word))
    turn.end(END)
    assert await soon(hearing, "the end") is END
    assert len(heard) == SOFT
    assert "".join(event.text for event in heard if isinstance(event, Text)) == "".join(words)


async def test_what_a_consumer_puts_itself_comes_behind_what_it_takes() -> None:
    turn, heard = AgentTurn(never), list[str]()

    def take(event: TurnEvent) -> bool:
        assert isinstance(event, Text)
        if event.text == "a":
            turn.put(Text("b"))
        heard.append(event.text)
        return True

    hearing = asyncio.ensure_future(turn.deliver_to(take))
    await asyncio.sleep(0)
    turn.put(Text("a"))
    await asyncio.sleep(0)
    turn.end(END)
    assert await soon(hearing, "the end") is END
    assert heard == ["a", "b"]


async def test_what_a_consumer_raises_is_raised_where_it_waits() -> None:
    turn = AgentTurn(never)

    def take(event: TurnEvent) -> bool:
        raise LookupError(str(event))

    hearing = asyncio.ensure_future(turn.deliver_to(take))
    await asyncio.sleep(0)
    assert turn.put(Text("a"))
    with pytest.raises(LookupError, match="a"):
        await soon(hearing, "its fault")


async def test_who_leaves_hears_nothing_more_and_a_turn_has_one_consumer() -> None:
    turn, heard = AgentTurn(never), list[TurnEvent]()
    hearing = asyncio.ensure_future(turn.deliver_to(into(heard)))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one consumer"):
        await turn.deliver_to(into(heard))
    turn.put(Text("a"))
    hearing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hearing
    turn.put(Text("b"))
    await asyncio.sleep(0)
    assert heard in ([], [Text("a")])
    turn.end(END)
    assert await soon(turn.deliver_to(into(heard)), "the end") is END
    assert heard == [Text("a"), Text("b")], "nothing is lost between two calls"


async def test_n31_however_much_waits_a_consumer_gets_its_share_of_a_round() -> None:
    turn, heard, rounds = AgentTurn(never), list[TurnEvent](), list[int]()
    for number in range(3 * AT_ONCE):
        turn.put(ToolStarted(str(number), "t"))
    turn.end(END)
    loop = asyncio.get_running_loop()

    def others() -> None:
        """Everybody else, once a round."""
        rounds.append(len(heard))
        if len(heard) < 3 * AT_ONCE:
            loop.call_soon(others)

    loop.call_soon(others)
    assert await soon(turn.deliver_to(into(heard)), "the end") is END
    assert [event.id for event in heard if isinstance(event, ToolStarted)] == [str(n) for n in range(3 * AT_ONCE)]
    assert {AT_ONCE, 2 * AT_ONCE} <= set(rounds)


async def test_n31_who_iterates_leaves_the_others_their_rounds_too() -> None:
    turn, rounds = AgentTurn(never), 0
    for number in range(3 * AT_ONCE):
        turn.put(ToolStarted(str(number), "t"))
    turn.end(END)

    async def others() -> None:
        nonlocal rounds
        while turn.finished is not None:
            rounds += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    async for _ in turn:
        pass
    beside.cancel()
    assert rounds >= 3
