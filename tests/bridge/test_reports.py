"""Progress and logs of tools that run in threads, and floods of them. RF9."""

import asyncio
import threading
from contextvars import Context
from typing import Any

from ostler.bridge.binding import BoundCall
from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.errors import CallRefused
from ostler.bridge.reports import WAITING_LIMIT, Reports


class Ear:
    """An origin that remembers in which thread it heard what."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.threads: set[int] = set()

    def answer(self, call: BoundCall, outcome: CallResult | CallRefused) -> None:
        """Not asked here."""

    def progress(
        self, _call: BoundCall, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        self.heard.append((progress, total, message))
        self.threads.add(threading.get_ident())

    def log(self, _call: BoundCall, level: str, data: object, logger: str | None = None) -> None:
        self.heard.append((level, data, logger))
        self.threads.add(threading.get_ident())


async def nothing(call: ToolCall) -> CallResult:
    raise AssertionError(call)


def call(ear: Ear) -> BoundCall:
    arguments: dict[str, Any] = {}
    return BoundCall("tool", arguments, "1", ear, nothing, None, Context())


async def test_rf9_what_a_thread_says_is_said_by_the_loop_in_its_order_and_before_the_result() -> None:
    ear = Ear()
    reports = Reports(call(ear))

    def work() -> int:
        reports.progress(1, 2, "half")
        reports.log("info", "almost")
        reports.progress(2, 2)
        return len(ear.heard)

    await asyncio.to_thread(work)
    assert ear.heard == [(1, 2, "half"), ("info", "almost", None), (2, 2, None)]
    assert ear.threads == {threading.get_ident()}


async def test_rf9_a_flood_from_a_thread_is_bounded() -> None:
    ear = Ear()
    reports = Reports(call(ear))
    flood = threading.Thread(target=lambda: [reports.progress(number) for number in range(10 * WAITING_LIMIT)])
    flood.start()
    flood.join()  # the loop stands still meanwhile, as in a busy gateway
    await asyncio.sleep(0)
    assert len(ear.heard) == WAITING_LIMIT
    reports.progress(-1)
    assert ear.heard[-1] == (-1, None, None)
