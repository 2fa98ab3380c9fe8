"""Numba loops: arrays in, arrays out, where NumPy would take several passes over memory. Imported on first use."""

from __future__ import annotations

import os

try:
    from numpy._core._multiarray_umath import __cpu_features__ as _features
except ImportError:  # NumPy 1
    from numpy.core._multiarray_umath import __cpu_features__ as _features

# Length of the vectors of the compiled search; its input is padded to a multiple of this.
LANES = 16
# Modes of the compiled search: columns are candidates of the rows; rows and columns are the same points; columns are
# candidates of the rows, and rows of the columns.
TO_ROWS, SAME_POINTS, BOTH_WAYS = range(3)
# Largest absolute value of a coordinate that is stored as a signed byte. On ARM one instruction multiplies and adds
# four bytes in each lane, four times as fast as float32; elsewhere bytes take longer than float32. Numba compiles for
# another processor if the variable is set.
LARGEST_BYTE = 127
BYTE_PRODUCTS = bool(_features.get("ASIMDDP")) and "NUMBA_CPU_NAME" not in os.environ
