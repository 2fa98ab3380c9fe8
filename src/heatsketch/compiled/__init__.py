"""Numba loops: arrays in, arrays out, where NumPy would take several passes over memory. Imported on first use."""

# Length of the vectors of the compiled search; its input is padded to a multiple of this.
LANES = 16
