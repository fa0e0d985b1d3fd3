"""Numbers as people read them, the same on the page and in the console."""

MEGABYTE = 1 << 20


def megabytes(size: float) -> str:
    return f"{size / MEGABYTE:,.0f} MB"


def counted_memory(size: float, *, measured: bool) -> str:
    """What the pool counts with; before every process was measured that is partly an assumption, and said so."""
    return megabytes(size) if measured else f"about {megabytes(size)}"


def milliseconds(value: float) -> str:
    return f"{value:,.1f} ms" if value < 1000 else f"{value / 1000:,.2f} s"


def duration(seconds: float) -> str:
    """As much of it as matters."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
