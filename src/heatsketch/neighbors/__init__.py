"""Neighbour search and neighbour graphs."""
