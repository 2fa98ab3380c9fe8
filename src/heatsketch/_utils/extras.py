"""Optional libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["optional"]


def optional(module: str, purpose: str, extra: str | None = None) -> Any:
    """Import an optional library; the error says how to install it, by name or by an extra of heatsketch.

    `purpose` is a verb phrase: what the library is needed for.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        library = module.partition(".")[0]
        wanted = library if extra is None else f"'heatsketch[{extra}]'"
        raise ModuleNotFoundError(
            f"{library} is needed to {purpose}; install it with: pip install {wanted}", name=missing.name
        ) from missing
