"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_target", "whole"]


def check_target(path: str | os.PathLike[str]) -> Path:
    """Refuse, before any work, a path that no file can be written to.

    Raises
    ------
    FileNotFoundError
        If its folder is not there.
    IsADirectoryError
        If it is a folder itself.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target} was given, but there is no folder {target.parent}; make it first.")
    if target.is_dir():
        raise IsADirectoryError(f"{target} was given, which is a folder; name a file in it.")
    return target


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to, which takes the place of `path` if all goes well and vanishes if not.

    It has the ending of `path`, and is in the same folder: another program sees the old file or the new one, never a
    part.

    Parameters
    ----------
    path : str or path-like

    Yields
    ------
    temporary : Path
        There already, and empty.
    """
    target = check_target(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        # Temporary files are private; what takes the place of a file has its rights, or those of any new file.
        temporary.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The rights that new files do not get; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
