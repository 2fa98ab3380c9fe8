"""Errors that tell a user what to mend; in a module of its own, which imports nothing heavy."""

__all__ = ["ReproductionError"]


class ReproductionError(ValueError):
    """Something that the user can mend: a wrong name or number, a directory of something else, a lack of memory."""
