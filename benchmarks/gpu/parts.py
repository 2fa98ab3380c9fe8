"""Where the seconds of a fit go: functions of heatsketch that are timed from outside while it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, Self

from .bench import Bench, Row

__all__ = ["Parts"]

# Names on the page, and what stands for them in the library; one that is gone is left out.
_PARTS = {
    "checks": ("heatsketch.estimators._base", "HeatEmbedding._check_data"),
    "bandwidth": ("heatsketch.kernel.build", "bandwidth_by_rule"),
    "factors": ("heatsketch.backends.torch.operators", "DeviceGaussianOperator.__init__"),
    "neighbours": ("heatsketch.neighbors.neighborhoods", "Neighborhoods.__init__"),
    "scaling": ("heatsketch.kernel.build", "normalize"),
    "sketch": ("heatsketch.estimators.gaussian_process", "_sketched_block"),
    "powers": ("heatsketch.estimators._base", "coefficients"),
    "placing": ("heatsketch.estimators._base", "HeatEmbedding._placed"),
}
_PRODUCT = ("heatsketch.backends.torch.operators", "DeviceGaussianOperator._product")


class Parts:
    """Seconds of the parts of what is done inside, and the products among them.

    Parameters
    ----------
    bench : Bench
    """

    def __init__(self, bench: Bench) -> None:
        self._bench, self._restore = bench, []
        self._seconds: dict[str, float] = {}
        self._products: dict[str, list[float]] = {"one column": [], "several": []}

    def __enter__(self) -> Self:
        for name, (module, path) in _PARTS.items():
            self._wrap(module, path, lambda seconds, _, name=name: self._add(name, seconds))
        self._wrap(*_PRODUCT, lambda seconds, arguments: self._count(seconds, arguments[-1]))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, original in reversed(self._restore):
            setattr(owner, name, original)

    def _wrap(self, module: str, path: str, note: Callable[[float, Any], None]) -> None:
        owner: Any = import_module(module)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part, None)
        original = getattr(owner, name, None)
        if original is None:
            return

        @wraps(original)
        def timed(*arguments: Any, **options: Any) -> Any:
            seconds, found = self._bench.wall(lambda: original(*arguments, **options))
            note(seconds, arguments)
            return found

        self._restore.append((owner, name, original))
        setattr(owner, name, timed)

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def _count(self, seconds: float, V: Any) -> None:
        self._products["one column" if V.shape[1] == 1 else "several"].append(seconds)

    def found(self, total: float) -> Row:
        """Seconds by part, what is left of the total, and the number and seconds of products, which parts contain."""
        parts = self._seconds | {"other": total - sum(self._seconds.values())}
        products = {name: {"count": len(s), "seconds": sum(s)} for name, s in self._products.items() if s}
        return {"parts": parts, "products": products}
