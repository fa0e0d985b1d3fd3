"""Formats numbers for people, the same on the status page and in the console."""

MEGABYTE = 1 << 20


def megabytes(size: float) -> str:
    return f"{size / MEGABYTE:,.0f} MB"


def counted_memory(size: float, *, measured: bool) -> str:
    """Memory as the pool counts it. Until every process was measured, part of it is an estimate, marked "about"."""
    return megabytes(size) if measured else f"about {megabytes(size)}"


def milliseconds(value: float) -> str:
    return f"{value:,.1f} ms" if value < 1000 else f"{value / 1000:,.2f} s"


def duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours, whichever is readable."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
