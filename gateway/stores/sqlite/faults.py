"""Translates errors of SQLite and of the file system into store errors. The only place that does."""

import errno
import os
from pathlib import Path

import apsw

from ostler.gateway.model.errors import (
    StoreCorrupt,
    StoreDiskFault,
    StoreError,
    StoreFault,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
)

FEW_BYTES = 64 * 1024


def fault_of(error: apsw.Error, path: Path, waited: float) -> StoreError:
    """A new error object per caller: an instance raised twice would mix the tracebacks."""
    fault = _judge(error, path, waited)
    fault.__cause__ = error
    return fault


def _judge(error: apsw.Error, path: Path, waited: float) -> StoreError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreLocked(path, waited)
        case apsw.FullError():
            return StoreFull(path)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreReadOnly(path)
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(path, str(error))
        case apsw.IOError() | apsw.CantOpenError():
            return _judge_disk(error, path)
        case _:
            return StoreFault(path, f"{type(error).__name__}: {error}")


def _judge_disk(error: apsw.Error, path: Path) -> StoreError:
    """Tell a full disk from a broken one. SQLite does so only when it writes pages, not when it creates a file or grows
    its map."""
    try:
        room = os.statvfs(path.parent)
        is_read_only = room.f_flag & os.ST_RDONLY or (path.exists() and not os.access(path, os.W_OK))
    except OSError as gone:
        return told_by_disk(gone, path)
    if is_read_only:
        return StoreReadOnly(path)
    if room.f_bavail * room.f_frsize < FEW_BYTES:
        return StoreFull(path)
    return StoreDiskFault(path, f"the disk fails: {error}")


def told_by_disk(error: OSError, path: Path) -> StoreError:
    """Translate an error of our own file operations."""
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return StoreReadOnly(path)
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreFull(path)
    return StoreDiskFault(path, error.strerror or str(error))
