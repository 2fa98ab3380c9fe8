"""Warnings that name the line of the user's code."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from pathlib import Path

__all__ = ["warn"]

# Where frames between a user's call and a warning are: this package, pipelines of scikit-learn, and decorators.
_PASSED_THROUGH = (
    f"{Path(__file__).parents[1]}{os.sep}",
    *(f"site-packages{os.sep}{name}{os.sep}" for name in ("sklearn", "joblib")),
    contextlib.__file__,
    functools.__file__,
)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the innermost caller outside of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in _PASSED_THROUGH):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
