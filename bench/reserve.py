"""The learned reserve against clamp(ceil(rpm / 60 x mean turn seconds), min, max), on committed arrival
patterns.

Both get the same world: a claim takes a parked seat or misses; a seat takes OPEN seconds to open; seats
above the target are closed at once. Misses are counted per claim, memory as the mean number of parked and
opening seats. `equal` is the formula again with its factor lowered until it keeps no fewer seats than the
learned reserve does: misses at equal memory. The learned reserve is the pool core's own `Arrivals` with its
default rule.
"""

import math
from collections import deque
from dataclasses import dataclass

from bench.arrivals import PATTERNS, read
from bench.measure import Report
from ostler.pool.core.sizing import Arrivals, ReserveRule

OPEN, TURN, LEAST, MOST, STEP = 0.3, 20.0, 1, 16, 0.05


class Formula:
    """The arrivals of the last minute, times the mean turn."""

    def __init__(self, turn: float = TURN) -> None:
        self.turn = turn
        self.minute: deque[float] = deque()

    def record(self, now: float) -> None:
        self.minute.append(now)

    def target(self, now: float) -> int:
        while self.minute and now - self.minute[0] > 60.0:
            self.minute.popleft()
        return min(MOST, max(LEAST, math.ceil(len(self.minute) / 60.0 * self.turn)))


class Learned:
    def __init__(self) -> None:
        self.arrivals = Arrivals(ReserveRule(most=MOST))

    def record(self, now: float) -> None:
        self.arrivals.record(now, OPEN)

    def target(self, now: float) -> int:
        return max(LEAST, self.arrivals.target(now, OPEN))


@dataclass(frozen=True)
class Score:
    misses: int
    seats: float


@dataclass(frozen=True)
class Row:
    pattern: str
    claims: int
    formula: Score
    equal: Score
    learned: Score


def play(times: list[float], policy: Formula | Learned) -> Score:
    parked, opening, misses, kept, steps = LEAST, deque[float](), 0, 0, 0
    due, now, end = deque(times), 0.0, times[-1] + 600.0
    while now < end:
        while opening and opening[0] <= now:
            opening.popleft()
            parked += 1
        while due and due[0] <= now:
            policy.record(due.popleft())
            misses += parked == 0
            parked = max(0, parked - 1)
        target = policy.target(now)
        parked = min(parked, target)
        opening.extend([now + OPEN] * (target - parked - len(opening)))
        kept += parked + len(opening)
        steps += 1
        now += STEP
    return Score(misses, kept / steps)


def at_equal_memory(times: list[float], seats: float, formula: Score) -> Score:
    """The cheapest formula that keeps at least as many seats."""
    best, turn = formula, TURN
    while best.seats >= seats and turn > 1.0:
        turn -= 1.0
        score = play(times, Formula(turn))
        if score.seats < seats:
            break
        best = score
    return best


def table() -> list[Row]:
    rows = []
    for name in PATTERNS:
        times = read(name)
        formula, learned = play(times, Formula()), play(times, Learned())
        rows.append(Row(name, len(times), formula, at_equal_memory(times, learned.seats, formula), learned))
    return rows


def run(quick: bool) -> Report:  # noqa: ARG001 (it plays recorded times, which takes two seconds)
    """Every pattern."""
    report = Report("the learned reserve against clamp(ceil(rpm / 60 x mean turn seconds), min, max)")
    report.notes.append(f"open {OPEN} s, mean turn {TURN} s, least {LEAST}, most {MOST}; misses (mean seats)")
    for row in table():
        scores = {"formula": row.formula, "formula, equal seats": row.equal, "learned": row.learned}
        told = ", ".join(f"{who} {score.misses} ({score.seats:.2f})" for who, score in scores.items())
        report.notes.append(f"{row.pattern}: {row.claims} claims, {told}")
        report.claim(f"{row.pattern}: misses beyond the formula's", row.learned.misses - row.equal.misses, at_most=0)
    return report
