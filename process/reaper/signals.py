"""Signals that cannot hit the wrong process, and the blocking end of a process tree."""

import os
import signal
import time
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from .kill_plan import KillPlan
from .pipe_inodes import PipeInodes, find_holders
from .proc import MarkedProcesses, ProcessIdentity, Stat, find_members, read_stat, take_census

PAUSE = 0.02
SHORT_PAUSE = 0.002
"""The pause while a start is incomplete: an agent without a recorded pid may live for some 30 ms only. If it is seen in
that time, its session identifies even those descendants that have closed its pipes.
"""


def send(stat: Stat, number: signal.Signals) -> None:
    """Signal exactly this process: the pidfd pins the pid while its start time is compared."""
    try:
        pin = os.pidfd_open(stat.pid)
    except ProcessLookupError:
        return
    try:
        current = read_stat(stat.pid)
        if current is not None and current.identity == stat.identity:
            signal.pidfd_send_signal(pin, number)
    except ProcessLookupError:
        return  # it ended by itself between the scan and the signal
    finally:
        os.close(pin)


class ProcessTree:
    """All processes of one spawn (`run.7`) or of a whole gateway run (`run.`). Remembers the members it saw.

    It vouches for the members that it saw itself, even where its creator could not vouch for `tracked`: an agent may
    fork once more between a scan and its end, and that child may carry no marker and have no parent, but it is in the
    session of a member that was alive a moment ago.
    """

    def __init__(
        self,
        mark: str,
        tracked: Collection[ProcessIdentity],
        *,
        vouched: bool,
        pipe_inodes: Collection[PipeInodes] = (),
        since: int = 0,
    ) -> None:
        """`since`: the start time of the gateway that made the marker."""
        self._mark = mark
        self._since = since
        self._pipe_inodes = tuple(pipe_inodes)
        self._tracked = set(tracked)
        self._vouched = vouched
        self._met: frozenset[ProcessIdentity] = frozenset()
        self.signalled: frozenset[ProcessIdentity] = frozenset()
        """The processes that `end` had to signal."""

    def include(self, identity: ProcessIdentity) -> None:
        self._tracked = {*self._tracked, identity}

    def scan(self) -> list[Stat]:
        """Scan for the members, by their pipes too, which `find` leaves to its caller. Blocking."""
        census = take_census(self._since)
        return self.find(census, find_holders(census.table, self._pipe_inodes))

    def find(self, census: MarkedProcesses, holders: AbstractSet[int] = frozenset()) -> list[Stat]:
        """The members in this scan. `holders`: processes that hold a pipe of one of the agents."""
        table = census.table
        members = find_members(table, census.marked(self._mark) | holders, self._tracked, vouched=self._vouched)
        members |= find_members(table, (), self._met, vouched=True)
        found = [table[pid] for pid in members - {os.getpid()}]
        # Replaced, not changed, as `_tracked` is: a scan on another thread may be iterating over the old set.
        self._met = self._met.union(stat.identity for stat in found)
        return found

    def end(
        self, *, grace: float, bound: float, linger: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> list[Stat]:
        """End the tree and return the processes that could not be ended. Blocking."""
        began = clock()
        plan = KillPlan(began, grace=grace, bound=bound, linger=linger)
        while True:
            found = self.scan()
            orders = plan.next_orders(found, clock())
            if orders.over:
                return [stat for stat in found if not stat.dead]
            self.signalled = self.signalled.union(stat.identity for stat, _ in orders.signals)
            for stat, number in orders.signals:
                send(stat, number)
            time.sleep(SHORT_PAUSE if clock() < began + linger else PAUSE)
