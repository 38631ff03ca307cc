"""Object code on disk, so that a problem is compiled once per machine.

An entry is a file named after the hash of everything its content depends on, hence never stale. It starts
with a checksum, since loading damaged object code would take the process down. Files are put in place by
renaming: a reader, in this process or another, sees a whole entry or none.

Environment variables: ``DALEMBERT_CACHE_DIR`` moves the cache, ``DALEMBERT_CACHE=0`` turns it off.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MAGIC: Final = b"dalembert kernels 1\n"
_SUFFIX: Final = ".kernels"
_TEMPORARY: Final = ".tmp"
_warned = False


@dataclass(frozen=True)
class CacheInfo:
    """State of the kernel cache: its directory, how many entries it has, and their size in bytes."""

    directory: Path
    entries: int
    bytes: int


def cache_directory() -> Path:
    """Directory for everything dalembert keeps between processes.

    ``$DALEMBERT_CACHE_DIR`` if set, else the platform's cache directory. Kernels are in its subdirectory
    ``kernels``; Numba's cache belongs in ``numba``. The directory need not exist.
    """
    chosen = os.environ.get("DALEMBERT_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dalembert"


def cache_enabled() -> bool:
    """Whether kernels are kept on disk (``DALEMBERT_CACHE=0`` says no)."""
    return os.environ.get("DALEMBERT_CACHE", "1").strip().lower() not in {"0", "false", "no", "off"}


def cache_info() -> CacheInfo:
    """Directory, number of entries and bytes of the kernel cache."""
    entries = _entries()
    return CacheInfo(_directory(), len(entries), sum(entry.stat().st_size for entry in entries))


def clear_cache() -> int:
    """Delete all kernels from disk and return how many entries that were. Loaded kernels keep working."""
    entries = _entries()
    leftovers = _directory().glob("*" + _TEMPORARY)  # of processes that were killed while writing
    for path in [*entries, *leftovers]:
        path.unlink(missing_ok=True)
    return len(entries)


def read(key: str) -> bytes | None:
    """The object code stored under a key, or None if there is none or it is damaged."""
    if not cache_enabled():
        return None
    try:
        content = _path(key).read_bytes()
    except OSError:
        return None
    header = len(_MAGIC) + 32
    code = content[header:]
    if not content.startswith(_MAGIC) or hashlib.sha256(code).digest() != content[len(_MAGIC) : header]:
        return None
    return code


def write(key: str, code: bytes) -> None:
    """Store object code under a key. If that is impossible, say so once and go on without."""
    global _warned
    if not cache_enabled():
        return
    try:
        directory = _directory()
        directory.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=directory, suffix=_TEMPORARY)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(code).digest() + code)
            os.replace(temporary, _path(key))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        if not _warned:
            _warned = True
            warnings.warn(
                f"compiled kernels cannot be kept on disk, every process will compile them anew: {error}. "
                "Set DALEMBERT_CACHE_DIR to a writable directory, or DALEMBERT_CACHE=0 to silence this.",
                RuntimeWarning,
                stacklevel=3,
            )


def _directory() -> Path:
    return cache_directory() / "kernels"


def _path(key: str) -> Path:
    return _directory() / (key + _SUFFIX)


def _entries() -> list[Path]:
    directory = _directory()
    return sorted(directory.glob("*" + _SUFFIX)) if directory.is_dir() else []
