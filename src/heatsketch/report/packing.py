"""Numbers and words in one block that a browser unpacks: JSON, then arrays, compressed, in letters."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

from .._utils.typing import FloatArray

__all__ = ["Packer", "compressed", "in_levels", "in_logarithms"]

# Arrays start at multiples of this many bytes, as typed arrays of a browser must.
_ALIGNED = 8
_MOST = 65534
# The number that stands for a missing value, or for zero where logarithms are kept.
ABSENT = 65535


class Packer:
    """Collects arrays, and remembers where each is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, values: Any) -> dict[str, Any]:
        """Keep an array of uint8, uint16 or uint32; what a browser needs to find it."""
        kind = {"uint8": "Uint8Array", "uint16": "Uint16Array", "uint32": "Uint32Array"}[values.dtype.name]
        little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        found = {"at": self._size, "length": int(values.size), "kind": kind}
        data = little.tobytes()
        data += bytes(-len(data) % _ALIGNED)
        self._parts.append(data)
        self._size += len(data)
        return found

    def packed(self, manifest: Any) -> str:
        """The length of the JSON, the JSON, and the arrays, compressed and in base64."""
        # NaN is not JSON, and would be a page that does not open.
        text = json.dumps(manifest, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGNED)
        return compressed(len(text).to_bytes(_ALIGNED, "little") + text + b"".join(self._parts))


def compressed(data: bytes) -> str:
    """Compressed by gzip, always in the same way, and in base64: nothing in it can be taken for markup."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")


def in_levels(values: FloatArray) -> tuple[Any, float, float]:
    """Numbers in 16 bits, 65535 where missing, with ``low`` and ``step``; whole numbers stay exact if they can.

    Values are ``low + step * number``, within half a step.
    """
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(values), ABSENT, dtype=np.uint16), 0.0, 1.0
    low, high = float(values[known].min()), float(values[known].max())
    span = high - low
    whole = span <= _MOST and bool((values[known] == np.rint(values[known])).all())
    step = 1.0 if whole or span == 0 else high / _MOST - low / _MOST
    numbers = np.full(len(values), ABSENT, dtype=np.uint16)
    numbers[known] = np.rint((values[known] - low) / step)
    return numbers, low, step


def in_logarithms(values: FloatArray) -> tuple[Any, float, float]:
    """Numbers of any size in 16 bits, 65535 for zero: ``exp(low + step * number)``, within half a step of the log."""
    positive = values > 0
    if not positive.any():
        return np.full(values.shape, ABSENT, dtype=np.uint16), 0.0, 1.0
    logs = np.log(values[positive])
    low, step = float(logs.min()), float(np.ptp(logs)) / _MOST or 1.0
    numbers = np.full(values.shape, ABSENT, dtype=np.uint16)
    numbers[positive] = np.rint((logs - low) / step)
    return numbers, low, step
