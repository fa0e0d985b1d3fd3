"""Two children write at once, one of them without end: each gets its portion of every round, in order, to the end."""

import asyncio
from collections.abc import Callable

import pytest

from ostler.process.pipes import CHEAP_PORTIONS, LOOK, Inflow
from ostler.wire.portions import LINES, LoopShare
from tests.support.waiting import soon

FLOOD = b"x\n" * LINES * 5


class Paused(asyncio.ReadTransport):
    """A pipe that is told to wait, and to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self) -> None:
        self.told.append("resume")

    def is_closing(self) -> bool:
        return False


NEVER_CHEAP, ALWAYS_CHEAP = -1.0, 3600.0


def inflow(
    receive: Callable[[bytes], None],
    ended: asyncio.Event,
    *,
    cheap: float = NEVER_CHEAP,
    share: LoopShare | None = None,
) -> tuple[Inflow, Paused]:
    end, pipe = Inflow(receive, ended.set, cheap=cheap, share=share), Paused()
    end.connection_made(pipe)
    return end, pipe


async def test_n31_a_child_that_writes_without_end_gets_its_share_and_no_more() -> None:
    heard, ended = list[tuple[str, int]](), asyncio.Event()
    loud, pipe = inflow(lambda data: heard.append(("loud", data.count(b"\n"))), ended)
    quiet, _ = inflow(lambda data: heard.append(("quiet", data.count(b"\n"))), asyncio.Event())
    loop = asyncio.get_running_loop()
    loud.data_received(FLOOD)
    loop.call_soon(quiet.data_received, b"y\n")
    loud.connection_lost(None)
    await soon(ended.wait(), "the end of the loud one")
    assert heard == [("loud", LINES), ("loud", LINES), ("quiet", 1), *[("loud", LINES)] * 3]
    assert pipe.told == ["pause"], "it is not read from while it is behind, nor after its end"


async def test_n31_the_end_comes_after_everything_that_was_said() -> None:
    heard, ended = list[bytes](), asyncio.Event()
    loud, _ = inflow(heard.append, ended)
    loud.data_received(FLOOD * 8)
    loud.connection_lost(None)
    assert not loud.ended
    assert loud.behind
    await soon(ended.wait(), "the end")
    assert b"".join(heard) == FLOOD * 8
    assert not loud.behind


async def test_n31_it_is_read_from_again_when_all_was_looked_at() -> None:
    seen = asyncio.Event()
    loud, pipe = inflow(lambda data: seen.set() if data.endswith(b"z\n") else None, asyncio.Event())
    loud.data_received(FLOOD + b"z\n")
    await soon(seen.wait(), "the last of it")
    assert pipe.told == ["pause", "resume"]


async def test_n31_what_nobody_wants_any_more_is_dropped() -> None:
    heard, ended = list[bytes](), asyncio.Event()
    loud, _ = inflow(heard.append, ended)
    loud.data_received(FLOOD)
    loud.drop()
    loud.connection_lost(None)
    await soon(ended.wait(), "the end")
    assert len(heard) == 1


async def test_n31_what_costs_next_to_nothing_is_delivered_together_and_not_without_end() -> None:
    heard, ended = list[str](), asyncio.Event()
    loud, _ = inflow(lambda _data: heard.append("loud"), ended, cheap=ALWAYS_CHEAP)
    loop = asyncio.get_running_loop()
    loop.call_soon(heard.append, "another")
    loud.data_received(b"x\n" * LINES * (CHEAP_PORTIONS + 2))
    loud.connection_lost(None)
    await soon(ended.wait(), "the end of the loud one")
    assert heard == ["loud"] * CHEAP_PORTIONS + ["another"] + ["loud"] * 2


class LongPauses(LoopShare):
    """Asks for a pause after each portion, which does not end by itself, and says when one was looked at."""

    __slots__ = ("looked",)

    def __init__(self) -> None:
        super().__init__()
        self.looked = asyncio.Event()

    def wait_after(self, seconds: float, now: float) -> float:
        return max(super().wait_after(seconds, now), 3600.0)

    def wait_more(self, now: float, *, alone: bool) -> float:
        self.looked.set()
        return 0.0 if alone else 3600.0


async def test_n31_a_sender_pauses_only_while_others_use_the_loop() -> None:
    heard, ended, busy, share = list[bytes](), asyncio.Event(), True, LongPauses()
    loop = asyncio.get_running_loop()

    def spin() -> None:
        if busy:
            loop.call_soon(spin)

    spin()
    loud, _ = inflow(heard.append, ended, share=share)
    loud.data_received(FLOOD)
    await soon(share.looked.wait(), "a look at the pause")
    share.looked.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(share.looked.wait(), 20 * LOOK)
    assert loud.behind, "it pauses for the other"
    loud.drop()
    busy, share = False, LongPauses()
    alone, _ = inflow(heard.append, ended, share=share)
    alone.data_received(FLOOD)
    alone.connection_lost(None)
    await soon(ended.wait(), "a sender that is alone")
    assert share.looked.is_set()
