"""Output files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_writable", "replacing", "write_whole"]


def check_writable(path: str | os.PathLike[str]) -> Path:
    """`path`; raises OSError if no file can be written there, before long work whose result would be lost."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no directory {folder}; create it first.")
    for target in (path, folder):
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(f"{path} cannot be written: {target} is not writable; name another file.")
    return path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file name beside `path`, which replaces `path` when the block ends without an error.

    The temporary name has the same suffix, for writers that depend on it. Devices such as /dev/stdout are written to
    directly. An error of the system, such as a full disk, is raised with the name of `path`.
    """
    path = check_writable(path)
    if path.exists() and not path.is_file():
        yield path
        return
    final = path.resolve()  # write through a symbolic link
    temporary = final.with_name(f".heatsketch-{secrets.token_hex(4)}-{final.name[-60:]}")
    try:
        yield temporary
        temporary.replace(final)
    except OSError as error:
        if error.errno is None:
            raise
        full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None))  # Windows has no quota error
        advice = "free space, or name a file on another disk" if full else "name another file"
        raise OSError(f"{path} cannot be written: {error.strerror}; {advice}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text or bytes to a file, completely or not at all; missing directories are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
