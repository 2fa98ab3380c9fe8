"""Warnings that name the line of the user's code."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

__all__ = ["warn"]

# Frames between a user's call and a warning: this package, scikit-learn's methods around ours, and decorators.
_PASSED_THROUGH = f"{Path(__file__).parents[1]}{os.sep}", f"{os.sep}sklearn{os.sep}", "contextlib.py", "functools.py"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the innermost caller outside of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in _PASSED_THROUGH):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
