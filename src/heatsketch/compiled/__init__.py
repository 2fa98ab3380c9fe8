"""Loops compiled by Numba: what NumPy can only do in several passes over memory. Imported when first used."""
