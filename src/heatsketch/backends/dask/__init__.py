"""Dask: data in chunks of rows on the workers of a cluster, or on threads, where one machine is not enough."""

from .backend import backend

__all__ = ["backend"]
