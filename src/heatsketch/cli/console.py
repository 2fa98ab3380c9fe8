"""Output of the commands: results on standard output; progress, notes and errors on standard error."""

from __future__ import annotations

import json
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape

from .._utils.text import visible

__all__ = [
    "FAILED",
    "FINDINGS",
    "INTERRUPTED",
    "as_options",
    "ending",
    "err",
    "note",
    "notes",
    "out",
    "plain",
    "print_json",
    "say",
    "warned",
    "warnings_as_notes",
]

# Names of files and columns may look like markup.
_LITERAL: dict[str, Any] = {"highlight": False, "emoji": False}
out, err = Console(**_LITERAL), Console(stderr=True, **_LITERAL)
# Notes and warnings, which --quiet suppresses.
notes = Console(stderr=True, **_LITERAL)
# The warnings of the command so far, for --json.
warned: list[str] = []

# Exit codes: an error; a harmful finding of `diagnose --strict`; Ctrl-C; SIGTERM. Typer uses 2 for wrong usage, and 130
# too.
FAILED, FINDINGS, INTERRUPTED, _TERMINATED = 1, 3, 130, 143

# Parameters that messages of the library advise, and their options.
_OPTIONS = {
    "n_components": "-k",
    "power": "-p",
    "random_state": "--seed",
    "bandwidth": "--bandwidth",
    "n_neighbors": "--n-neighbors",
    "normalization": "--normalization",
    "metric": "--metric",
    "affinity": "--affinity",
}
_METHODS = {
    "HeatSketch": "heatsketch",
    "GaussianProcessEmbedding": "gaussian-process",
    "DiffusionMaps": "diffusion-maps",
}
_METHOD = re.compile(rf"\b(use|or) ({'|'.join(_METHODS)})\b")
_ADVICE = re.compile(rf"\b({'|'.join(_OPTIONS)})=('[^' ]*'|\w+(?:\.\w+)?)")


def plain(text: Any) -> str:
    """A text that may come from a file, for a console: without markup or control sequences."""
    return escape(visible(str(text)))


def as_options(text: Any) -> str:
    """A message of the library with options of the command: --n-neighbors 32 for n_neighbors=32.

    "use DiffusionMaps" becomes "use --method diffusion-maps".
    """

    def option(found: re.Match[str]) -> str:
        value = "all" if found[2] == "None" else found[2].strip("'")
        return f"{_OPTIONS[found[1]]} {value}"

    text = _ADVICE.sub(option, str(text)).replace("None for every pair", "all for every pair")
    return _METHOD.sub(lambda found: f"{found[1]} --method {_METHODS[found[2]]}", text)


def note(text: str) -> None:
    """Print a note for the user."""
    notes.print(plain(text), soft_wrap=True)


def say(text: Any) -> None:
    """Print a result on standard output."""
    out.print(plain(text), soft_wrap=True)


def print_json(document: Any) -> None:
    """Print a result as JSON on standard output; NumPy's numbers and arrays are converted."""
    sys.stdout.write(json.dumps(document, indent=2, default=lambda value: value.tolist()) + "\n")


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show warnings as sentences, without their place in the code, and collect them in `warned`."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warned.append(as_options(message))
        notes.print(f"[yellow]Warning:[/] {plain(warned[-1])}", soft_wrap=True)

    warned.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning):
            warnings.simplefilter("ignore", category)  # nothing that a user of the command can act on
        warnings.showwarning = show
        yield


@contextmanager
def ending() -> Iterator[None]:
    """End by SIGTERM as by an error, so that unfinished files are removed."""

    def end(signal_number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        sys.exit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
