"""The numbers we would show a stranger: how many times better than what he would use instead.

Rules:
- A headline compares bars of one unit from one run; its figure is a ratio, so it travels between machines. More is
  better.
- The baseline is committed. A headline that falls by more than `SLACK` against it fails the check; absolute times are
  never compared. One that is in the baseline and was not measured has fallen too: what broke must not look like what
  holds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

SLACK = 0.25
BASELINE = Path(__file__).parent / "baseline.json"

WIDTH, BAR, GAP, LEFT, RIGHT, TOP = 720, 22, 10, 230, 110, 46
OURS, THEIRS = "#2f7d5b", "#9aa5b1"


@dataclass(frozen=True)
class Headline:
    """One comparison, ours first."""

    name: str
    unit: str
    bars: tuple[tuple[str, float], ...]
    ratio: float
    spread: float | None = None
    """Of the ratio over the rounds, or of our bar where there are no rounds to pair: half the distance between the
    quartiles, as a share of the median. None where there was one round: nobody knows then."""
    against: str = ""
    """Which of the others the ratio is about."""
    more: bool = False
    """Whether the larger figure is the better one."""

    @property
    def slug(self) -> str:
        """A file name."""
        return "-".join("".join(char if char.isalnum() else " " for char in self.name.lower()).split())

    def __str__(self) -> str:
        rest = ", ".join(f"{label} {value:.3g}" for label, value in self.bars)
        spread = "one round" if self.spread is None else f"+-{self.spread:4.0%}"
        return f"{self.ratio:7.2f} x  {spread:<9}  {self.name} ({self.unit}: {rest})"


Found = Mapping[str, Sequence[Headline]]
"""The headlines of a run, by the bench that found them; a bench that broke found none."""
Baseline = Mapping[str, Mapping[str, float]]
"""Ratios by bench and headline."""


def fallen(found: Found, baseline: Baseline) -> list[str]:
    """A sentence for each that is worse than it was, or was not measured by a bench that ran. One that is new has
    nothing to be worse than; where nothing was ever kept there is nothing to check, and that is no success."""
    if not baseline:
        return ["there is no baseline yet: `python -m bench --keep` makes one"]
    return [
        sentence
        for bench, headlines in found.items()
        for sentence in worse(bench, {one.name: one.ratio for one in headlines}, baseline.get(bench, {}))
    ]


def worse(bench: str, now: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """The sentences of one bench."""
    gone = [f"{bench}, {name}: not measured, was {ratio:.3g} x" for name, ratio in before.items() if name not in now]
    less = [
        f"{bench}, {name}: {now[name]:.3g} x, was {ratio:.3g} x"
        for name, ratio in before.items()
        if name in now and now[name] < ratio * (1 - SLACK)
    ]
    return [*less, *gone]


def read_baseline() -> dict[str, dict[str, float]]:
    """Empty where none was kept yet."""
    if not BASELINE.exists():
        return {}
    kept: dict[str, dict[str, float]] = json.loads(BASELINE.read_text())
    return kept


def renewed(found: Found, baseline: Baseline, benches: Sequence[str]) -> Baseline:
    """The ratios to hold from now on: those of the benches that ran, and of those that did not and are still there."""
    ratios = {bench: {one.name: round(one.ratio, 3) for one in headlines} for bench, headlines in found.items()}
    kept = {bench: before for bench, before in baseline.items() if bench in benches} | ratios
    return {bench: dict(sorted(kept[bench].items())) for bench in sorted(kept) if kept[bench]}


def keep_baseline(baseline: Baseline) -> None:
    """For the next checks."""
    BASELINE.write_text(json.dumps(baseline, indent=1) + "\n")


def chart(headline: Headline) -> str:
    """Bars as an SVG that reads in light and dark, and by a screen reader."""
    longest = max(value for _, value in headline.bars) or 1.0
    room = WIDTH - LEFT - RIGHT
    height = TOP + len(headline.bars) * (BAR + GAP)
    spread = "" if headline.spread is None else f" \u00b1 {headline.spread:.0%}"
    told = "; ".join(f"{label}: {value:.3g} {headline.unit}" for label, value in headline.bars)
    rows = [
        bar(number, label, value, room * value / longest, headline.unit)
        for number, (label, value) in enumerate(headline.bars)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(headline.name)}. {escape(told)}" font-family="system-ui, sans-serif" font-size="13">',
            "<style>text{fill:#1f2933}@media (prefers-color-scheme:dark){text{fill:#e4e7eb}}</style>",
            f'<text x="0" y="18" font-size="15" font-weight="600">{escape(headline.name)}</text>',
            f'<text x="{WIDTH}" y="18" text-anchor="end">{headline.ratio:.3g} x{spread}</text>',
            *rows,
            "</svg>",
            "",
        ]
    )


def bar(number: int, label: str, value: float, length: float, unit: str) -> str:
    """One row of a chart."""
    top = TOP - 12 + number * (BAR + GAP)
    middle = top + BAR / 2 + 4.5
    fill = OURS if number == 0 else THEIRS
    return (
        f'<text x="{LEFT - 8}" y="{middle:g}" text-anchor="end">{escape(label)}</text>'
        f'<rect x="{LEFT}" y="{top}" width="{max(length, 1.5):.1f}" height="{BAR}" rx="3" fill="{fill}"/>'
        f'<text x="{LEFT + max(length, 1.5) + 8:.1f}" y="{middle:g}">{value:.3g} {escape(unit)}</text>'
    )
