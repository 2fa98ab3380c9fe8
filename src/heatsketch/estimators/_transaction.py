"""Methods that change an estimator wholly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["wholly"]

E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")


def wholly(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """Let a method change its estimator wholly or, after an error or an interrupt, not at all.

    The method works on a twin, whose attributes become those of the estimator in one step when it has returned.
    """

    @wraps(method)
    def changed(self: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        twin: Any = object.__new__(type(self))
        twin.__dict__.update(vars(self))
        result = method(twin, *args, **kwargs)
        self.__dict__ = vars(twin)
        return self if result is twin else result  # type: ignore[return-value]

    return changed
