"""What a document shows: its fenced blocks, its links, its tables.

Rules: a block is run as it stands there. One that cannot be says so in a comment above it, `<!-- not run: REASON -->`,
which readers of the page do not see and those of the source do.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.1:8787"
FENCE = re.compile(r"^```(\w*)\s*$")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
LINK = re.compile(r"\]\(([^)\s]+)\)|<(http[^>]+)>|<img src=\"([^\"]+)\"")
SAYS = re.compile(r"^\s*print\(.*\)  # (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    file: Path
    line: int
    language: str
    text: str
    reason: str | None
    """Why it is not run."""

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """What users and contributors read."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(file: Path) -> list[Block]:
    """In their order."""
    found: list[Block] = []
    opened: tuple[int, str, str | None] | None = None
    before, body = "", list[str]()
    for number, line in enumerate(file.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            reason = NOT_RUN.match(before)
            opened, body = (number, fence[1], reason and reason[1]), []
        elif opened is not None and line.rstrip() == "```":
            found.append(Block(file, opened[0], opened[1], "\n".join(body) + "\n", opened[2]))
            opened = None
        elif opened is not None:
            body.append(line)
        before = line or before
    assert opened is None, f"{file}: the block of line {opened} is not closed"
    return found


def links(file: Path) -> list[str]:
    """Where its links and pictures lead."""
    return [next(filter(None, found)) for found in LINK.findall(file.read_text())]


def anchors(file: Path) -> set[str]:
    """What its headings are called in links."""
    heads = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
