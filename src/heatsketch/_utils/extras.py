"""Optional libraries: imported where they are needed, and named with what installs them where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["optional"]


def optional(module: str, purpose: str, extra: str | None = None) -> Any:
    """Import an optional library, or say how to install it.

    Parameters
    ----------
    module : str
        Such as "matplotlib.pyplot".
    purpose : str
        What it is needed to do.
    extra : str, optional
        The extra of heatsketch that brings it; by default it is installed by its own name.

    Raises
    ------
    ModuleNotFoundError
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        library = module.partition(".")[0]
        wanted = library if extra is None else f"'heatsketch[{extra}]'"
        raise ModuleNotFoundError(
            f"{library} is needed to {purpose}; install it with: pip install {wanted}", name=missing.name
        ) from missing
