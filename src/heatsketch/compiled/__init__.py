"""Loops compiled by Numba: what NumPy can only do in several passes over memory. Imported when first used."""

# Numbers that the vectors of the compiled search hold; what it is given is filled up to a multiple of this.
LANES = 16
