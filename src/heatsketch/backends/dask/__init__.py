"""Dask: data in row chunks on the workers of a cluster, or on threads."""

from .backend import backend

__all__ = ["backend"]
