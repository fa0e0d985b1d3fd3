"""Sync tools that never come back, against the threads of everybody else. RF8, F16."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.threads import Threads
from ostler.bridge.tool import tool
from ostler.bridge.toolbelt import Toolbelt
from tests.support.waiting import eventually


def call(name: str) -> ToolCall:
    return ToolCall(name, {}, "call-1", None, lambda *_: None, lambda *_: None)


def text(result: CallResult) -> str:
    said: str = result.content[0]["text"]
    return said


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What stuck tools wait for; opened at the end, so that no thread outlives its test."""
    gate = threading.Event()
    yield gate
    gate.set()


@tool
def quick() -> str:
    """Comes back."""
    return "done"


async def test_f16_the_stuck_tools_of_one_session_leave_threads_for_the_others(gate: threading.Event) -> None:
    @tool(name="first")
    def first() -> None:
        gate.wait()

    @tool(name="second")
    def second() -> None:
        gate.wait()

    threads = Threads(4, share=2)
    greedy, modest = Toolbelt([first, second], threads=threads), Toolbelt([quick], threads=threads)
    waiting = [asyncio.create_task(greedy(call(name))) for name in ("first", "second") * 4]
    await asyncio.sleep(0)
    assert text(await modest(call("quick"))) == "done"
    gate.set()
    assert not any(each.is_error for each in await asyncio.gather(*waiting))


async def test_rf8_sessions_that_ended_with_stuck_tools_do_not_use_up_the_threads(gate: threading.Event) -> None:
    @tool(timeout=0.02)
    def stuck() -> None:
        gate.wait()

    threads = Threads(2, share=1)
    for _ in range(5):
        assert "did not finish" in text(await Toolbelt([stuck], threads=threads)(call("stuck")))
    assert threads.abandoned == 5
    assert text(await Toolbelt([quick], threads=threads)(call("quick"))) == "done"
    gate.set()
    await eventually(lambda: threads.abandoned == 0, "the threads that were left are back")


async def test_rf8_how_many_threads_may_be_left_is_bounded(gate: threading.Event) -> None:
    @tool(timeout=0.02)
    def stuck() -> None:
        gate.wait()

    threads = Threads(1, abandoned_limit=1)
    for _ in range(4):
        assert "did not finish" in text(await Toolbelt([stuck], threads=threads)(call("stuck")))
    assert threads.abandoned == 1
    gate.set()
    assert text(await Toolbelt([quick], threads=threads)(call("quick"))) == "done"


async def test_rf8_a_call_that_was_given_up_before_its_turn_is_never_run(gate: threading.Event) -> None:
    ran: list[str] = []

    @tool
    def holds() -> None:
        gate.wait()

    @tool(timeout=0.02)
    def late() -> None:
        ran.append("late")

    threads = Threads(1)
    holding = asyncio.create_task(Toolbelt([holds], threads=threads)(call("holds")))
    await asyncio.sleep(0)
    assert "was stopped" in text(await Toolbelt([late], threads=threads)(call("late")))
    gate.set()
    await holding
    assert text(await Toolbelt([quick], threads=threads)(call("quick"))) == "done"
    assert ran == []


async def test_rf8_an_interrupt_raised_in_a_thread_stays_there() -> None:
    @tool
    def interrupts() -> None:
        raise KeyboardInterrupt

    answer = await Toolbelt([interrupts], threads=Threads(1))(call("interrupts"))
    assert answer == CallResult.error("the tool raised KeyboardInterrupt")


def test_rf8_a_tool_that_never_ends_does_not_hold_up_the_end_of_the_process() -> None:
    program = """
import asyncio, threading
from ostler.bridge.calls import ToolCall
from ostler.bridge.threads import Threads
from ostler.bridge.tool import tool
from ostler.bridge.toolbelt import Toolbelt

@tool(timeout=0.01)
def stuck() -> None:
    threading.Event().wait()

call = ToolCall("stuck", {}, "1", None, lambda *_: None, lambda *_: None)
print(asyncio.run(Toolbelt([stuck], threads=Threads())(call)).is_error)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300, check=True)
    assert ended.stdout == b"True\n"
