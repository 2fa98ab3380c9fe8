"""A fitted embedding as one HTML page that needs no network."""

from .page import write_report

__all__ = ["write_report"]
