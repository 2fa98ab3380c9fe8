"""Other data and other measures, beside other packages where they are installed."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import MDS, Isomap

import heatsketch as hs
from heatsketch._utils.typing import FloatArray
from heatsketch.linalg.diffusion import coefficients
from heatsketch_paper.experiment import Experiment, Row

from .measures import measured
from .shapes import SHAPES, halves, miserables

__all__ = ["FURTHER", "METHODS", "PEERS"]


def _umap(k: int, seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # that TensorFlow is not there
        from umap import UMAP  # noqa: PLC0415

    return UMAP(n_components=k, random_state=seed, n_jobs=1)


def _phate(k: int, seed: int) -> Any:
    from phate import PHATE  # noqa: PLC0415

    return PHATE(n_components=k, random_state=seed, n_jobs=1, verbose=0)


# Ours, on the kernel that the distances are measured by. Diffusion time and bandwidth are the defaults.
METHODS: dict[str, Callable[[int, int], Any]] = {
    "DM": lambda k, _: hs.DiffusionMaps(k),
    "GP": lambda k, seed: hs.GaussianProcessEmbedding(k, random_state=seed),
    "GP, n_exact auto": lambda k, seed: hs.GaussianProcessEmbedding(k, n_exact="auto", random_state=seed),
    "HS": lambda k, seed: hs.HeatSketch(k, random_state=seed),
    "HS, log-stress": lambda k, seed: hs.HeatSketch(k, objective="log-stress", random_state=seed),
}
# Others, with their defaults; MDS is given the diffusion distances themselves.
PEERS: dict[str, Callable[[int, int], Any]] = {
    "Isomap": lambda k, _: Isomap(n_components=k),
    "UMAP": _umap,
    "PHATE": _phate,
}


@dataclass(frozen=True)
class Further(Experiment):
    """All measures of all methods on one data set, against the diffusion distance of the default kernel.

    ``log_L_unseen`` and ``spearman_unseen`` are of points that were not seen, for methods that can place them.
    """

    data: str = "sphere"
    n_components: tuple[int, ...] = (2, 5)

    def trial(self, index: int) -> list[Row]:
        """Rows of one trial."""
        rng, seed = self.points_seed(index), self.sketch_seed(index) % 2**31
        X, unseen = halves(self.data, self.n_samples, rng) if self.data in SHAPES else (miserables(), None)
        given = {} if unseen is not None else {"affinity": "precomputed"}
        kernel = hs.heat_kernel(X, n_neighbors=None, **given)
        d = hs.diffusion_distances(kernel, 8)
        d_unseen = None
        if unseen is not None:
            Z = coefficients(kernel, np.eye(len(X)), 8, trivial=False)
            d_unseen = pdist(kernel.at_new_points(unseen, Z))
        rows: list[Row] = []
        for k in self.n_components:
            for name, make in METHODS.items():
                rows.append(
                    _row(name, k, make(k, seed).set_params(n_neighbors=None, **given), (X, d), (unseen, d_unseen))
                )
            mds = MDS(k, metric="precomputed", init="classical_mds", n_init=1)  # the best start that it has
            rows.append(_row("MDS", k, mds, (squareform(d), d), (None, None)))
            for name, make in PEERS.items():
                there = name == "Isomap" or importlib.util.find_spec(name.lower()) is not None
                if there and unseen is not None:
                    rows.append(_row(name, k, make(k, seed), (X, d), (unseen, d_unseen)))
        return rows


def _row(name: str, k: int, model: Any, seen: tuple[Any, FloatArray], unseen: tuple[Any, Any]) -> Row:
    """What a method makes of points and their distances, seen and unseen."""
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Y = np.asarray(model.fit_transform(seen[0]), dtype=np.float64)
        seconds = perf_counter() - start
        there = None if unseen[0] is None else np.asarray(model.transform(unseen[0]), dtype=np.float64)
    row: Row = {"method": name, "k": k} | measured(Y, seen[1])
    on_unseen = {} if there is None else measured(there, unseen[1])
    return row | {f"{m}_unseen": on_unseen.get(m, np.nan) for m in ("log_L", "spearman")} | {"seconds": seconds}


_NAMES = {name.replace(" ", "_").replace("^", ""): name for name in SHAPES} | {"les_miserables": "Les Misérables"}
FURTHER = {
    name: Further(name, 500 if data in SHAPES else 77, 3, seed=101 + number, effort=60.0, data=data)
    for number, (name, data) in enumerate(_NAMES.items())
}
