"""What a fit has found, below scikit-learn's diagram of the estimator in notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils.display import Facts, html_table
from .._utils.progress import say
from .._utils.typing import FloatArray
from ..analysis.power import ChosenPower
from ..kernel.affinity import GaussianAffinity
from ..kernel.operator import HeatKernel


class Summary:
    """Adds a table of what was found to the HTML of a fitted estimator."""

    embedding_: FloatArray
    kernel_: HeatKernel
    n_components_: int
    normalization: str
    power_: float
    power_choice_: ChosenPower | None

    def _found(self) -> Facts:
        """What was found, in words; nothing before a fit."""
        if not hasattr(self, "embedding_"):
            return []
        kernel, affinity, scaling = self.kernel_, self.kernel_.affinity, self.kernel_.scaling
        assert affinity is not None
        assert scaling is not None
        facts = [("samples", f"{kernel.shape[0]:,}, in {self.embedding_.dtype}"), ("kernel", affinity.description)]
        if isinstance(affinity, GaussianAffinity):
            median = "median of " if np.ndim(affinity.epsilon) else ""
            facts.append(("bandwidth", f"{median}{affinity.typical_epsilon:.4g} ({kernel.bandwidth_rule})"))
        off = f", row sums within {scaling.residual:.1e}" if scaling.residual else ""
        facts.append(("normalisation", f"{self.normalization}, {scaling.n_iter} products{off}"))
        rule = "given" if self.power_choice_ is None else self.power_choice_.rule
        facts.append(("power", f"{self.power_:g} ({rule})"))
        exact = getattr(self, "n_exact_", 0)
        facts.append(("components", f"{self.n_components_}{f', {exact} of them exact' if exact else ''}"))
        if hasattr(self, "distortion_"):
            facts.append(("distortion", str(self.distortion_)))
        return facts

    def _say_kernel(self, kernel: HeatKernel, power: float, chosen: ChosenPower | None) -> None:
        """Tell those who watch what the kernel of a fit is."""
        scaling, affinity = kernel.scaling, kernel.affinity
        assert scaling is not None
        held = affinity.description if affinity is not None else "a given kernel"
        if isinstance(affinity, GaussianAffinity):
            held += f", bandwidth {affinity.typical_epsilon:.4g} ({kernel.bandwidth_rule})"
        balanced = f", row sums within {scaling.residual:.1e}" if scaling.residual else ""
        say(
            f"[{type(self).__name__}] {kernel.shape[0]} samples, {kernel.dtype}, {held}; {self.normalization} in "
            f"{scaling.n_iter} products{balanced}; power {power:g} ({'given' if chosen is None else chosen.rule})"
        )

    def _repr_html_inner(self) -> str:
        html: str = super()._repr_html_inner()  # type: ignore[misc]
        return html + self._found_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._found_html()
        return bundle

    def _found_html(self) -> str:
        facts = self._found()
        return html_table(facts, title="Found") if facts else ""
