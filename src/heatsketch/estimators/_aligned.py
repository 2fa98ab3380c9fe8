"""Several data sets on the same items, embedded so that they can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from .._utils.progress import shown
from .._utils.registry import as_given, computing, distributed_backend
from .._utils.threads import quiet_blas
from ..analysis.power import power_of
from ..kernel.build import build_heat_kernel
from ..kernel.operator import HeatKernel
from ..kernel.options import sample_names
from ..layout.aligned import AlignedMixture
from ..layout.descent import Found, minimise, oriented
from ..layout.similarities import Similarities, similarities_of
from ..linalg.filters import MultiscaleFilter, Power, longest
from ..linalg.sketch import resolve_seed
from ._base import HeatEmbedding
from .gaussian_process import GaussianProcessEmbedding
from .heat_sketch import HeatSketch

__all__ = ["fit_aligned"]


@quiet_blas()
def fit_aligned(estimator: HeatEmbedding, datasets: Sequence[Any]) -> list[Any]:
    r"""Fit one estimator to several data sets on the same items, so that the embeddings can be compared item by item.

    Item i is row i of every data set: the same cells at several times, the same vertices of several graphs, the same
    texts by several models. Features may differ. An item whose surroundings are the same in two data sets has the same
    position in both embeddings.

    All kernels have one filter h, that of the data set with the longest times. Random sketches are multiplied by one M,
    ``Y_b = h(A_b) M``: the expected squared distance between the two positions of an item is that between its two rows
    of the kernels. Its sum over all items is the squared global diffusion distance of the paper's robustness
    proposition [1]_. `HeatSketch` keeps the neighbours and distances of each data set, and adds an attraction between
    the positions of an item (:mod:`heatsketch.layout.aligned`). The attraction is weaker than that of neighbours: one
    group is not split because it is two groups in another data set.

    Parameters
    ----------
    estimator : GaussianProcessEmbedding or HeatSketch
        Its parameters are used for all data sets. The estimator itself is not fitted. HeatSketch needs kernels of
        neighbours or graphs, ``power="auto"``, and the objective "mixed" or "neighbors".
    datasets : sequence of array-likes, sparse matrices or graphs
        Each with the same number of samples, as for `fit`.

    Returns
    -------
    models : list of estimators
        One for each data set, fitted, with ``embedding_`` and ``transform``. Later changes to one model, such as
        `add_components`, do not change the others, so models of HeatSketch are then no longer aligned.

    See Also
    --------
    compare_kernels : Two kernels through one random matrix, with intervals for how far each item moved.

    References
    ----------
    .. [1] Gilbert, O'Neill. "Sketching the Heat Kernel: Using Gaussian Processes to Embed Data". arXiv:2403.07929.

    Examples
    --------
    >>> import numpy as np
    >>> import heatsketch as hs
    >>> before = hs.datasets.circle(200, random_state=0)
    >>> after = before.copy()
    >>> after[:5] *= 2
    >>> models = hs.fit_aligned(hs.HeatSketch(random_state=0), [before, after])
    >>> moved = np.linalg.norm(models[0].embedding_ - models[1].embedding_, axis=1)
    >>> bool(moved[:5].min() > np.median(moved))
    True
    """
    if not isinstance(datasets, (list, tuple)) or not datasets:
        given = "an empty list" if isinstance(datasets, (list, tuple)) else type(datasets).__name__
        raise ValueError(f"datasets was given as {given}; give a list of data sets, such as [X1, X2].")
    if not isinstance(estimator, (GaussianProcessEmbedding, HeatSketch)) or getattr(estimator, "n_exact", 0) != 0:
        raise ValueError(
            f"fit_aligned was given {estimator!r}; give a HeatSketch(), or a GaussianProcessEmbedding() with "
            "n_exact=0, whose M can serve several kernels. Exact directions are those of one kernel."
        )
    names = _common_names(datasets)
    models = [clone(estimator) for _ in datasets]
    seed = resolve_seed(estimator.random_state)
    with shown(estimator.verbose), computing():
        kernels = [_kernel(model, X) for model, X in zip(models, datasets, strict=True)]
        if len({kernel.shape for kernel in kernels}) > 1:
            raise ValueError(
                f"data sets of {', '.join(str(kernel.shape[0]) for kernel in kernels)} samples were given; row i must "
                "be the same item in each. For other items, fit to one data set and use transform."
            )
        power = max((power_of(kernel, estimator.power) for kernel in kernels), key=longest)
        if isinstance(estimator, HeatSketch):
            layouts = _layouts(estimator, kernels, power, seed)
        for number, (model, kernel) in enumerate(zip(models, kernels, strict=True)):
            model.random_state = seed
            if isinstance(model, HeatSketch):
                model._take(kernel, power, *layouts[number])
            else:
                model._embed(kernel, power, kernel.dtype)
    for model, X in zip(models, datasets, strict=True):
        model.embedding_ = as_given(model.embedding_, X)
        model._sample_names = names
    return models


def _common_names(datasets: Sequence[Any]) -> Any:
    """The names of the items, or None; raises ValueError if they differ between data sets."""
    # The index of a frame, also one that counts its rows: another frame may have been shuffled.
    named = {n: X.index if hasattr(X, "iloc") else sample_names(X) for n, X in enumerate(datasets)}
    named = {number: list(names) for number, names in named.items() if names is not None}
    first = next(iter(named), 0)
    for number, names in named.items():
        if names != named[first]:
            raise ValueError(
                f"the rows of data set {number} have other names than those of data set {first}, or another order; row "
                "i must be the same item in each. Reorder frames with frame.loc[index], or give arrays if only the "
                "names differ. For graphs, make an adjacency matrix of each with one list of nodes, such as "
                "networkx.to_scipy_sparse_array(graph, nodes)."
            )
    return next((names for names in map(sample_names, datasets) if names is not None), None)


def _kernel(model: HeatEmbedding, X: Any) -> HeatKernel:
    """The kernel of one data set, checked as `fit` checks it."""
    if distributed_backend(X) is not None:
        raise TypeError("fit_aligned was given a Dask array; give data in memory.")
    options = model._check_options(X)
    points = model._check_data(X, reset=True)
    return build_heat_kernel(points, options, model._computed_in(points.dtype))


def _layouts(
    estimator: HeatSketch, kernels: list[HeatKernel], power: Power, seed: int
) -> list[tuple[Similarities, Found]]:
    """The similarities and the layout of each kernel."""
    if not isinstance(power, MultiscaleFilter) or estimator.objective not in ("mixed", "neighbors"):
        raise ValueError(
            f"fit_aligned was given a HeatSketch with power={estimator.power!r} and objective={estimator.objective!r}; "
            "use power='auto' and the objective 'mixed' or 'neighbors', or GaussianProcessEmbedding, which has no such "
            "limit."
        )
    if estimator.init is not None:
        raise ValueError("fit_aligned was given a HeatSketch with init, which it cannot use; set init to None.")
    if estimator.use_labels:
        raise ValueError(
            "fit_aligned was given a HeatSketch with use_labels=True, which it cannot use; set it to False."
        )
    if not all(kernel.is_graph for kernel in kernels):
        raise ValueError(
            "fit_aligned was given a HeatSketch with a kernel of every pair; use kernels of neighbours "
            "(n_neighbors=15, less than the number of samples) or graphs, or GaussianProcessEmbedding, which has no "
            "such limit."
        )
    k, weight = int(estimator.n_components), estimator._weight
    parts = [similarities_of(kernel, power, k, weight=weight) for kernel in kernels]
    objective = AlignedMixture(parts, weight, k, seed)
    found = minimise(objective, objective.start(k))
    found = oriented(found, objective.features, np.arange(len(found.Y)))
    return [(part, replace(found, Y=Y)) for part, Y in zip(parts, objective.split(found.Y), strict=True)]
