"""Names for the types that appear in signatures."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
RandomState: TypeAlias = "int | np.random.RandomState | np.random.Generator | None"
