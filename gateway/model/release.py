"""Which release of a package is installed: looked up once, for it is read from files and a gateway says it often."""

from functools import cache
from importlib import metadata


@cache
def version(package: str) -> str:
    """As `importlib.metadata` says it."""
    return metadata.version(package)
