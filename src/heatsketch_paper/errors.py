"""Errors that the user can fix; a module without heavy imports."""

__all__ = ["ReproductionError"]


class ReproductionError(ValueError):
    """A wrong name or number, a directory of something else, or too little memory."""
