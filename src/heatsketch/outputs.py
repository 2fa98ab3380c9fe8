"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole", "writable", "write_whole"]


def writable(path: str | os.PathLike[str]) -> Path:
    """`path`, if a file can be written there: asked before work whose result would be lost.

    Raises
    ------
    OSError
        If its folder is not there, if it or its folder may not be written to, or if it names a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {folder}; make it first.")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written: it is there, and may only be read.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {folder} is not writable.")
    return path


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name beside `path`; what is written there takes its place when the block ends without an error.

    Nobody ever sees a part of the file, and after an error what was at `path` is still there. The temporary name has
    the same ending, for writers that go by it. What is no plain file, such as /dev/null, is written to directly.
    """
    path = writable(path)
    if path.exists() and not path.is_file():
        yield path
        return
    final = path.resolve()  # a link stays one
    temporary = final.with_name(f".{os.getpid()}-{secrets.token_hex(4)}-{final.name}")
    try:
        yield temporary
        if final.exists():
            temporary.chmod(final.stat().st_mode & 0o777)  # the rights of the file whose place it takes
        temporary.replace(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text or bytes to a file, whole or not at all; the folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
