"""How what goes wrong becomes a row of the results."""

from __future__ import annotations

from typing import Any

__all__ = ["as_row"]

_LONGEST = 300


def as_row(error: BaseException) -> dict[str, Any]:
    """Status and first line of an error: a package that is not there is absent, everything else has failed."""
    text = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {text[0] if text else ''}"[:_LONGEST]
    if isinstance(error, MemoryError):
        return {"status": "memory", "reason": reason}
    missing = isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("heatsketch.")
    return {"status": "absent" if missing else "failed", "reason": reason}
