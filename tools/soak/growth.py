"""What a row of measurements says about growth. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

Point = tuple[float, float]
"""(seconds, value)"""


def slope(points: Sequence[Point]) -> float:
    """Per hour, by least squares."""
    if len(points) < 2:
        return 0.0
    middle, level = sum(at for at, _ in points) / len(points), sum(value for _, value in points) / len(points)
    spread = sum((at - middle) ** 2 for at, _ in points)
    return 3600 * sum((at - middle) * (value - level) for at, value in points) / spread if spread else 0.0


def settled(points: Sequence[Point], parts: int) -> list[Point]:
    """The lowest value of each of so many stretches: what is really held, without what is only passing through."""
    if len(points) < parts:
        return list(points)
    edges = [len(points) * place // parts for place in range(parts + 1)]
    return [min(points[start:end], key=lambda point: point[1]) for start, end in pairwise(edges)]


def percentile(values: Sequence[float], part: float) -> float:
    """The value that so large a part is below; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def beyond(values: Sequence[float], part: float) -> float:
    """The mean of what is not below the percentile; 0 of none."""
    least = percentile(values, part)
    return fmean(value for value in values if value >= least) if values else 0.0


def windows(points: Sequence[Point], many: int) -> list[list[float]]:
    """The values of equal stretches of time."""
    if not points:
        return []
    start, end = points[0][0], points[-1][0]
    width = (end - start) / many or 1.0
    found: list[list[float]] = [[] for _ in range(many)]
    for at, value in points:
        found[min(many - 1, int((at - start) / width))].append(value)
    return found


def is_flat(levels: Sequence[float], tolerance: float) -> bool:
    """Whether the last third is no more than `tolerance` times the first one. Of halves a steady rise shows too little:
    their middles are half as far apart as its ends."""
    third = len(levels) // 3
    return not third or median(levels[-third:]) <= tolerance * median(levels[:third])
