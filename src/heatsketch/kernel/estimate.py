"""What a fit is foreseen to take, and what to do where memory does not hold it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .._utils.display import Facts, Shown
from .._utils.memory import size_in_words

__all__ = ["Estimate"]

# A fit that would take more than this share of the available memory is refused.
_REFUSE = 0.95


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """What a fit will take.

    Attributes
    ----------
    n_samples : int
    held : str
        How the kernel will be held, in words.
    n_neighbors : int or None
        None for every pair.
    memory : int
        Bytes at the peak, beside X and the libraries themselves.
    available : int
        Bytes at hand.
    seconds : float or None
        On this machine; None where it was not asked for.
    """

    n_samples: int
    held: str
    n_neighbors: int | None
    memory: int
    available: int
    seconds: float | None = None

    @property
    def fits(self) -> bool:
        """Whether memory holds it."""
        return self.memory <= _REFUSE * self.available

    def require_memory(self) -> None:
        """Refuse a fit that cannot fit, and say what could.

        Raises
        ------
        MemoryError
        """
        if not self.fits:
            raise MemoryError(f"{self._need('would take')} {self._remedy}")

    @contextmanager
    def within_memory(self) -> Iterator[None]:
        """Do what was foreseen: refused if it cannot fit, and if memory runs out all the same, with the same words.

        Raises
        ------
        MemoryError
        """
        self.require_memory()
        try:
            yield
        except MemoryError as error:
            if type(error) is MemoryError and error.args:
                raise  # somebody knew better what was lacking
            lacking = f" ({error})" if error.args else ""
            raise MemoryError(f"memory ran out{lacking}: {self._need('were to take')} {self._remedy}") from error

    def _need(self, verb: str) -> str:
        return (
            f"{self.n_samples} samples with {self.held} {verb} about {size_in_words(self.memory)}, and "
            f"{size_in_words(self.available)} are available."
        )

    @property
    def _remedy(self) -> str:
        remedy = "fewer neighbours or components, float32 data, or a sample of the points with transform for the rest"
        if self.n_neighbors is None:
            remedy = f"neighbours instead of every pair (n_neighbors=32), or {remedy}"
        return f"Use {remedy}; heatsketch.estimate tells what a choice takes."

    def __str__(self) -> str:
        took = "" if self.seconds is None else f", {_duration(self.seconds)}"
        return f"{self.n_samples} samples, {self.held}: about {size_in_words(self.memory)} of memory{took}"

    def _facts(self) -> Facts:
        facts = [
            ("samples", f"{self.n_samples:,}"),
            ("kernel", self.held),
            ("memory", f"about {size_in_words(self.memory)} of {size_in_words(self.available)}"),
        ]
        return facts if self.seconds is None else [*facts, ("time", f"about {_duration(self.seconds)}")]


def _duration(seconds: float) -> str:
    """A time in words."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.1f} s"
