"""Checks of the machine that concern every agent."""

import os
import resource
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from ostler.bridge.peers import tells_processes
from ostler.gateway.ops.doctor.report import Finding, Severity
from ostler.pool.launch.configuration import PoolSettings

FILES = 1024
FREE = 1 << 30


def machine(folder: Path, pool: PoolSettings) -> Iterator[Finding]:
    """Yield what is wrong with the machine."""
    if sys.platform != "linux":
        yield Finding(Severity.WARNING, f"ostler was never tried on {sys.platform}")
    if not tells_processes():
        yield Finding(
            Severity.WARNING,
            "the kernel does not tell who a tool server's ancestors are: tokens are the only check",
            "mount /proc",
        )
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:  # `ostler serve` raises its soft limit to the hard limit
        yield Finding(
            Severity.WARNING,
            f"{hard} open files are allowed; {pool.limits.max_processes} agents and their sessions need {FILES}",
            "raise the hard limit: LimitNOFILE=1024:65536 in the unit, or --ulimit nofile=1024:65536 of the container",
        )
    yield from data(folder)


def data(folder: Path) -> Iterator[Finding]:
    """Check that the data folder belongs to us alone, is writable, and has free space."""
    if folder.exists():
        found = folder.stat()
        if found.st_uid != os.geteuid():
            yield Finding(Severity.FAULT, f"{folder} belongs to another user", "name another folder with --data-dir")
        elif stat.S_IMODE(found.st_mode) & 0o077:
            yield Finding(Severity.WARNING, f"others may look into {folder}", f"chmod 700 {folder}")
    present = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(present, os.W_OK):
        yield Finding(Severity.FAULT, f"{present} cannot be written to", "name another folder with --data-dir")
    free = shutil.disk_usage(present).free
    if free < FREE:
        yield Finding(
            Severity.WARNING, f"{free >> 20} MB are free below {present}", "make room: sessions are kept there"
        )
