"""Warnings that name the line of the user's code, once for each."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from pathlib import Path
from typing import Any

__all__ = ["warn"]

# Where frames between a user's call and a warning are: this package, pipelines of scikit-learn, and decorators.
_PASSED_THROUGH = (
    f"{Path(__file__).parents[1]}{os.sep}",
    *(f"site-packages{os.sep}{name}{os.sep}" for name in ("sklearn", "joblib")),
    contextlib.__file__,
    functools.__file__,
)
# Filters of warnings under which Python shows the same warning for the same line once.
_ONCE = ("default", "module", "once")
# What has been shown: the place of the warning in this package, and that of the call in the user's code.
_shown: set[tuple[Any, ...]] = set()


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the innermost caller outside of this package.

    In a grid search there is one for all fits, whatever figures they would name: there, Python would show each, as
    scikit-learn sets the filters again for each fit.
    """
    frame, level = sys._getframe(1), 2
    place = frame.f_code.co_filename, frame.f_lineno
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in _PASSED_THROUGH):
        frame, level = frame.f_back, level + 1
    if _action(message, category, frame.f_globals.get("__name__", ""), frame.f_lineno) in _ONCE:
        key = (*place, category, id(frame), frame.f_lineno)
        if key in _shown:
            return
        _shown.add(key)
    warnings.warn(message, category, stacklevel=level)


def _action(message: str, category: type[Warning], module: str, line: int) -> str:
    """What the user's filters do with a warning."""
    given: Any = getattr(warnings, "_get_filters", lambda: warnings.filters)()  # of this context, from Python 3.14
    for action, text, kind, where, at in given:
        if issubclass(category, kind) and at in (0, line) and _matches(text, message) and _matches(where, module):
            return str(action)
    return "default"


def _matches(pattern: Any, text: str) -> bool:
    """Whether a text matches the pattern of a filter; those of Python itself are strings."""
    return pattern is None or bool(text == pattern if isinstance(pattern, str) else pattern.match(text))
