"""Advice on an index that cannot be written."""

from __future__ import annotations

import errno

import apsw

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def remedy(error: apsw.Error | OSError) -> str:
    """Return a sentence on what to do about an error.

    Args:
        error: the error of SQLite or the system.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL or isinstance(error, apsw.FullError):
        return "Free space, then try again."
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "Another program has it open for writing; end that, or try again later."
    if number in _FORBIDDEN or isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return "Make it writable, or name another folder with --cache-dir or KBHUB_CACHE_DIR."
    return "Check the disk and its free space, then try again."
