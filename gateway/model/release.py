"""The installed version of a package. It is looked up once, because the lookup reads files and a gateway states it
often."""

from functools import cache
from importlib import metadata


@cache
def version(package: str) -> str:
    """Return the version as `importlib.metadata` gives it."""
    return metadata.version(package)
