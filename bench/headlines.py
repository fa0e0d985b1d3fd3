"""The numbers we would show a stranger: how many times better than what he would use instead.

Rules:
- A headline compares bars of one unit from one run; its figure is a ratio, so it travels between machines. More is
  better.
- The baseline is committed. A headline that falls by more than `SLACK` against it fails the check; absolute times are
  never compared.
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
    spread: float = 0.0
    """Of the ratio over the rounds, or of our bar where there are no rounds to pair: half the distance between the
    quartiles, as a share of the median."""

    @property
    def slug(self) -> str:
        """A file name."""
        return "-".join("".join(char if char.isalnum() else " " for char in self.name.lower()).split())

    def __str__(self) -> str:
        rest = ", ".join(f"{label} {value:.3g}" for label, value in self.bars)
        return f"{self.ratio:7.2f} x  +-{self.spread:4.0%}  {self.name} ({self.unit}: {rest})"


def fallen(headlines: Sequence[Headline], baseline: Mapping[str, float]) -> list[str]:
    """A sentence for each that is worse than it was. One that is new has nothing to be worse than; where nothing was
    ever kept there is nothing to check, and that is no success."""
    if not baseline:
        return ["there is no baseline yet: `python -m bench --keep` makes one"]
    return [
        f"{one.name}: {one.ratio:.3g} x, was {baseline[one.name]:.3g} x"
        for one in headlines
        if one.name in baseline and one.ratio < baseline[one.name] * (1 - SLACK)
    ]


def read_baseline() -> dict[str, float]:
    """By name; empty where none was kept yet."""
    if not BASELINE.exists():
        return {}
    return {name: float(ratio) for name, ratio in json.loads(BASELINE.read_text()).items()}


def keep_baseline(headlines: Sequence[Headline]) -> None:
    """These are the ratios to hold from now on; those that were not measured stay."""
    kept = read_baseline() | {one.name: round(one.ratio, 3) for one in headlines}
    BASELINE.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


def chart(headline: Headline) -> str:
    """Bars as an SVG that reads in light and dark, and by a screen reader."""
    longest = max(value for _, value in headline.bars) or 1.0
    room = WIDTH - LEFT - RIGHT
    height = TOP + len(headline.bars) * (BAR + GAP)
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
            f'<text x="{WIDTH}" y="18" text-anchor="end">{headline.ratio:.3g} x</text>',
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
