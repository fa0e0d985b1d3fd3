"""Signals that cannot hit the wrong process, and the blocking end of a family."""

import os
import signal
import time
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from .kill_plan import KillPlan
from .pipe_inodes import PipeInodes, find_holders
from .proc import MarkedProcesses, ProcessIdentity, Stat, find_kin, read_stat, take_census

PAUSE = 0.02
SHORT_PAUSE = 0.002
"""While a start is torn: an agent that nobody knows may live for some 30 ms only. Seen meanwhile, it tells by its
session even of those who let go of its pipes."""


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
        return  # it went by itself between the look and the signal
    finally:
        os.close(pin)


class ProcessTree:
    """All processes of one spawn (`run.7`) or of a whole gateway run (`run.`). Remembers whom it saw.

    Whom it saw it can vouch for, whoever named the wards: an agent may fork once more between our look and its end, and
    that child may carry no marker and know no parent, but it is in the session of somebody who was there a moment ago.
    """

    def __init__(
        self,
        mark: str,
        wards: Collection[ProcessIdentity],
        *,
        vouched: bool,
        leashes: Collection[PipeInodes] = (),
        since: int = 0,
    ) -> None:
        """`since`: when the gateway began that made the mark."""
        self._mark = mark
        self._since = since
        self._leashes = tuple(leashes)
        self._wards = set(wards)
        self._vouched = vouched
        self._met: frozenset[ProcessIdentity] = frozenset()
        self.struck: frozenset[ProcessIdentity] = frozenset()
        """Whom `end` had to signal."""

    def include(self, identity: ProcessIdentity) -> None:
        self._wards = {*self._wards, identity}

    def look(self) -> list[Stat]:
        """Blocking; with the leashes, which `find` leaves to its caller."""
        census = take_census(self._since)
        return self.find(census, find_holders(census.table, self._leashes))

    def find(self, census: MarkedProcesses, holders: AbstractSet[int] = frozenset()) -> list[Stat]:
        """`holders` hold a pipe of one of the agents."""
        table = census.table
        kin = find_kin(table, census.marked(self._mark) | holders, self._wards, vouched=self._vouched)
        kin |= find_kin(table, (), self._met, vouched=True)
        found = [table[pid] for pid in kin - {os.getpid()}]
        # Made anew, not changed, as the wards are: a look in a thread may be going through the old one.
        self._met = self._met.union(stat.identity for stat in found)
        return found

    def end(
        self, *, grace: float, bound: float, linger: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> list[Stat]:
        """Blocking. Answers with those that could not be ended."""
        began = clock()
        hunt = KillPlan(began, grace=grace, bound=bound, linger=linger)
        while True:
            found = self.look()
            orders = hunt.look(found, clock())
            if orders.over:
                return [stat for stat in found if not stat.dead]
            self.struck = self.struck.union(stat.identity for stat, _ in orders.signals)
            for stat, number in orders.signals:
                send(stat, number)
            time.sleep(SHORT_PAUSE if clock() < began + linger else PAUSE)
