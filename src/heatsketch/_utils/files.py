"""Files that are written whole or not at all."""

from __future__ import annotations

import atexit
import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["left_over", "require_room", "whole", "writable", "write_whole"]

# How the names of files begin that are being written, and of those that were when a process was killed.
_BEGUN = ".heatsketch-"
# Characters of the final name that a temporary one ends in: its ending, for writers that go by it, and no more than
# names may have.
_TAIL = 60
# Bytes that are written to see whether a disk takes any.
_TRIAL = 4096
# Temporary files of this process that have neither taken their place nor been removed.
_unsettled: set[Path] = set()


def writable(path: str | os.PathLike[str]) -> Path:
    """`path`, if a file can be written there: asked before work whose result would be lost.

    A small file is written beside it and removed again, for rights alone do not tell whether a disk is full, or may
    only be read.

    Raises
    ------
    OSError
        If its folder is not there, if it or its folder may not be written to, or if it names a folder.
    """
    path = _allowed(path)
    if not path.exists() or path.is_file():
        require_room(path)
    return path


def require_room(path: Path, size: int = 0) -> None:
    """Refuse a file that the disk does not take, by trying: beside `path`, for no longer than that takes.

    Parameters
    ----------
    path : Path
    size : int
        Bytes that the file will take at most.
    """
    trial = _temporary(path.resolve())
    try:
        with trial.open("wb") as file:
            file.write(bytes(_TRIAL))
            file.flush()
            if size > _TRIAL and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise _failed(path, error) from error
    finally:
        _remove(trial)


def _allowed(path: str | os.PathLike[str]) -> Path:
    """`path`, if nothing that can be seen forbids to write there."""
    path = Path(path)
    _check_name(path)
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


def _check_name(path: Path) -> None:
    """Refuse what no file can be called; of what is missing or closed more can be said later."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except ValueError as error:  # a NUL
        raise OSError(f"{path} cannot be written: no file can be called that ({error}); name another.") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(f"{path} cannot be written: it is a link that leads back to itself; remove it.") from error
        raise _failed(path, error) from error


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name beside `path`; what is written there takes its place when the block ends without an error.

    Nobody ever sees a part of the file, and after an error what was at `path` is still there. The temporary name has
    the same ending, for writers that go by it. What is no plain file, such as /dev/null, is written to directly.

    Raises
    ------
    OSError
        If the file cannot be written, for want of room for example.
    """
    path = _allowed(path)
    if path.exists() and not path.is_file():
        yield path
        return
    final = path.resolve()  # a link stays one
    temporary = _temporary(final)
    try:
        yield temporary
        _settle(temporary)
        with suppress(FileNotFoundError):
            temporary.chmod(final.stat().st_mode & 0o777)  # the rights of the file whose place it takes
        temporary.replace(final)
        _unsettled.discard(temporary)
    except BaseException as error:
        _remove(temporary)
        # Libraries that fail to write may then fail to close, and raise that.
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError) and isinstance(error, Exception):
            raise _failed(path, cause) from error
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text or bytes to a file, whole or not at all; the folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def left_over(folder: Path) -> Iterator[Path]:
    """Files in a folder, and in those below it, that processes were writing when they were killed.

    Or are writing: only who knows that no other process is at work may remove them.
    """
    return folder.rglob(f"{_BEGUN}*")


def _temporary(final: Path) -> Path:
    """A name beside that of a file, which is this process's to remove."""
    temporary = final.with_name(f"{_BEGUN}{os.getpid()}-{secrets.token_hex(4)}-{final.name[-_TAIL:]}")
    _unsettled.add(temporary)
    return temporary


def _remove(temporary: Path) -> None:
    """Remove a temporary file, or leave it to the end of the process where that fails or is interrupted."""
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
        _unsettled.discard(temporary)


@atexit.register
def _clear_away() -> None:
    """Remove what an interrupt left behind that came at the very edge of a block, where no cleaning up is called."""
    for temporary in list(_unsettled):
        if temporary.name.startswith(f"{_BEGUN}{os.getpid()}-"):  # not those of the process that this is a fork of
            _remove(temporary)


def _settle(path: Path) -> None:
    """Have a file on the disk itself before it takes the place of another, lest a power cut lose both."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _failed(path: Path, error: OSError) -> OSError:
    reason = (error.strerror or str(error)).strip().rstrip(".")
    failure = OSError(
        f"{path} cannot be written ({reason}); make room or mend that, or name a file in another folder. Nothing has "
        "changed there."
    )
    failure.errno = error.errno
    return failure
