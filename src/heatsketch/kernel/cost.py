"""Cost: the seconds that the steps of an embedding and of its page take, predicted from the size of the data.

`docs/scale.md` compares predictions with measurements.
"""

from __future__ import annotations

import timeit
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils.progress import Step
from .._utils.registry import Device
from .._utils.threads import product
from ..linalg.eigen import DENSE_LIMIT
from ..linalg.filters import FEW, TRACE_COLUMNS, TRACE_STEPS, MultiscaleFilter, Power
from ..neighbors.search import index_kind
from .options import KernelOptions

if TYPE_CHECKING:
    from .plan import Choice

__all__ = ["CORES", "UNION", "Work", "diagonalises", "fit_steps", "fused", "here", "is_sparse", "page_steps", "tiled"]

# The cores that seconds are for.
CORES = 2

# Seconds on two cores of a machine that multiplies matrices of float32 at this speed; a matrix product says how much
# slower this machine is. A kernel entry formed on the fly, and for each feature and twice each column; on one core.
_REFERENCE_FLOPS, _SIZE, _REPEATS = 2.5e11, 1024, 10
_TILE_PAIR = (2.0e-9, 2.6e-11)
# The neighbours of a point by a tree, in one to six features; a point's clustering, calibration and exact distances; a
# pair that is compared in clusters, and for each feature, and the share of all pairs that are, of typical data; a pair
# in an exact search.
_TREE_POINT = (6e-7, 7.5e-7, 1.4e-6, 2.4e-6, 5e-6, 1e-5)
_CLUSTER_POINT, _CLUSTER_PAIR, _COMPARED_SHARE = 7e-6, (3.5e-10, 1e-11), 0.06
_BLOCK_PAIR = 3.5e-9
# A feature of a pair whose distance is computed, and a number in X, which is copied, centred and compared.
_FEATURE_PAIR, _NUMBER = 1e-11, 1e-7
# A point of a neighbour graph, which is built and normalised; an entry of a sparse or given matrix in a product, and
# for each column; an entry of a dense kernel, and times a number.
_GRAPH_POINT, _SPARSE_ENTRY = 2e-6, (1.6e-9, 4.4e-11)
_DENSE_PAIR, _DENSE_PRODUCT = 1.2e-8, 4.5e-11
UNION, _TYPICAL_NEIGHBORS = 1.35, 32  # entries of the neighbour graph per requested neighbour
# A prediction below this is not worth measuring the machine.
_MOMENT = 1.0
_FIXED, _CALL = 0.01, 2e-4  # a fit of few points, and one product; on any machine
# A number in the Lanczos iteration that estimates the weights of the filter, and in a block whose columns are made
# orthogonal; the optimisation of HeatSketch: in all, per point, and for each of its components.
_LANCZOS, _ORTHOGONAL = 6.5e-9, 5e-9
_OPTIMISED = (0.07, 3e-5, 1.6e-5)
# Seconds of an H200 (132 multiprocessors; float64 takes 30 times as long), from docs/gpu: a kernel entry formed on the
# fly and for each feature; a pair in a neighbour search and for each feature; a point of HeatSketch, and for each
# component. One pass multiplies up to 64 columns. The last is the time of a neighbour graph and its products, relative
# to one core.
_FUSED_PAIR, _GPU_PAIR, _GPU_OPTIMISED, _GPU_GRAPH = (4.5e-13, 9.0e-15), (4e-13, 9.5e-15), (2.5e-6, 7.5e-7), 0.25
_MULTIPROCESSORS, _FLOAT64, _FUSED_COLUMNS = 132, 30.0, 64
# Products of the bistochastic scaling and of the range finder; those of the eigensolver at this many points, and how
# they grow with the number of points, of typical data: eigenvalues near 1 come closer together.
_BALANCING, _RANGE_PRODUCTS, _OVERSAMPLED = 12, 24, 12
_EIGENBLOCKS = 6  # blocks of columns that the eigensolver holds
_EIGENPRODUCTS, _EIGENPRODUCTS_AT, _EIGENPRODUCTS_GROWTH = 130, 20_000, 0.6
# All eigenvectors of a matrix, times the cube of its size; columns of a wide sketch that are multiplied at a time.
_DIAGONALISING, _SLICE = 1.4e-10, 64
# Degree of the polynomial of the multiscale filter, over the root of its last time. That time follows from the kernel,
# between 16 (well mixed data) and 4096 (long shapes); until it is known, these stand for it, for few points and for
# many.
_DEGREE = {np.dtype(np.float64): 8.2, np.dtype(np.float32): 4.1}
_TYPICAL_TIMES = 1024, 512
# The page: up to so many points tasks run side by side, and up to so many other methods are embedded. Seconds of each
# task, in all and per point.
_PAGE_SIZES = 10_000, 50_000
_PAGE_TOGETHER = {"preparing the page": (0.5, 3.5e-4), "drawing the pictures": (0.1, 1e-4)}
_PAGE_SOME = {
    "measuring the kernel's scales": (0.0, 1e-5),
    "looking for false neighbours": (0.0, 1.8e-4),
    "measuring distances": (0.0, 1.6e-4),
    "examining the embedding": (0.0, 2.5e-5),
    "embedding by HeatSketch": (0.0, 8e-5),
    "embedding by DiffusionMaps": (0.0, 3e-5),
    "embedding by GaussianProcessEmbedding": (0.0, 2e-5),
    "drawing the pictures": (0.0, 9e-5),
}
_PAGE_MANY = {
    "measuring the kernel's scales": (0.0, 3e-6),
    "looking for false neighbours": (1.0, 3e-6),
    "measuring distances": (2.0, 1.4e-5),
    "examining the embedding": (0.0, 6e-6),
    "embedding by GaussianProcessEmbedding": (0.0, 4e-6),
    "drawing the pictures": (2.0, 2.6e-5),
}


@dataclass(frozen=True)
class Work:
    """What a method does with a kernel."""

    columns: int  # that it multiplies
    optimised: int = 0  # components of `HeatSketch`
    eigenvectors: int = 0
    directions: int = 0  # leading ones, as well as the range finder can; `HeatSketch` needs them for a wide sketch

    @property
    def held(self) -> int:
        """Columns that are in memory at once."""
        return max(self.columns, _EIGENBLOCKS * (self.eigenvectors + _OVERSAMPLED) if self.eigenvectors else 0)


def is_sparse(options: KernelOptions, choice: Choice, entries: int | None) -> bool:
    """Whether the kernel is a sparse matrix."""
    if options.affinity == "precomputed":
        return entries is not None
    return choice.n_neighbors is not None or options.cutoff is not None


def diagonalises(n_samples: int, work: Work, *, graph: bool) -> bool:
    """Whether a method computes eigenvectors of the whole matrix: of few points, or many of them."""
    return bool(work.directions or (work.eigenvectors and not graph)) and (
        n_samples <= DENSE_LIMIT or 5 * work.eigenvectors > n_samples
    )


def fit_steps(
    shape: tuple[int, ...],
    dtype: Any,
    options: KernelOptions,
    choice: Choice,
    work: Work,
    *,
    power: Power | str,
    entries: int | None,
) -> list[Step]:
    """The steps of a fit, with their seconds on the machine of the constants, or on its GPU."""
    n = int(shape[0])
    degree, traced = _products(n, dtype, power)

    def multiply(products: float, columns: int) -> float:
        return products * (_CALL + _product(shape, dtype, options, choice, entries=entries, columns=columns))

    balancing = _BALANCING if options.normalization.startswith("bistochastic") else 2
    steps = [
        ("finding neighbours", _search(shape, options, choice, entries)),
        ("balancing the kernel", _FIXED + _kernel(shape, options, choice, entries) + multiply(balancing, 1)),
        ("measuring the kernel's scales", multiply(*traced) + _LANCZOS * n * traced[0] * traced[1]),
    ]
    graph = is_sparse(options, choice, entries)
    diagonalised, whole = diagonalises(n, work, graph=graph), _DIAGONALISING * float(n) ** 3
    if work.eigenvectors:
        columns = work.eigenvectors + _OVERSAMPLED
        products = _EIGENPRODUCTS * (n / _EIGENPRODUCTS_AT) ** _EIGENPRODUCTS_GROWTH
        iterated = multiply(products, columns) + _ORTHOGONAL * n * products * columns
        steps.append(("finding eigenvectors", whole if diagonalised else iterated))
    else:
        multiplying, multiscale = multiply(degree, work.columns), isinstance(power, (str, MultiscaleFilter))
        if work.directions and work.optimised:  # a wide sketch, in slices, and the embedding
            multiplying = multiply(degree, work.optimised)
            if diagonalised and multiscale and not graph:  # by eigenvectors, again unless all of them were found
                whole *= 1.0 if n <= work.columns else 2.0
            elif n > work.columns or not diagonalised:
                multiplying += work.columns / _SLICE * multiply(degree, _SLICE)
        if diagonalised:
            steps.append(("finding eigenvectors", whole))
        elif work.directions:
            steps.append(("finding leading directions", multiply(_RANGE_PRODUCTS, 2 * work.directions + _OVERSAMPLED)))
        steps.append(("multiplying by the kernel", multiplying))
    if work.optimised:
        fixed, point, component = (0.0, *_GPU_OPTIMISED) if choice.on_gpu else _OPTIMISED
        steps.append(("optimising the embedding", fixed + n * (point + component * work.optimised)))
    return [(name, seconds) for name, seconds in steps if seconds]


def page_steps(n: int) -> list[Step]:
    """The steps of a page of so many points, with their seconds on the machine of the constants."""
    few, some = _PAGE_SIZES
    parts = _PAGE_TOGETHER if n <= few else _PAGE_SOME if n <= some else _PAGE_MANY
    return [(name, fixed + point * n) for name, (fixed, point) in parts.items()]


def _products(n: int, dtype: Any, power: Power | str) -> tuple[float, tuple[int, int]]:
    """Products that apply the filter to a block; and products, with so many columns, that estimate its weights."""
    many = n > FEW
    if isinstance(power, (str, MultiscaleFilter)):
        time = _TYPICAL_TIMES[many] if isinstance(power, str) else power.times[-1]
        traced = (TRACE_STEPS[many], TRACE_COLUMNS[many]) if isinstance(power, str) else (0, 0)
        return _DEGREE[np.dtype(dtype)] * time**0.5, traced
    return (power if power < 128 else (2.0 * power * 24.0) ** 0.5), (0, 0)  # Chebyshev's recurrence, to e^-24


def _product(
    shape: tuple[int, ...], dtype: Any, options: KernelOptions, choice: Choice, *, entries: int | None, columns: int
) -> float:
    """Seconds of a product of the kernel with so many columns."""
    n, d = int(shape[0]), int(shape[1])
    if choice.tiled and choice.device is not None and choice.on_gpu:
        return fused(n, d, dtype, choice.device) * max(1.0, columns / _FUSED_COLUMNS)
    if choice.tiled:
        return tiled(n, d, columns) / CORES
    if options.affinity == "precomputed":
        held = float(n) * n if entries is None else float(entries)
    elif choice.n_neighbors is None and options.cutoff is None:
        return float(n) * n * columns * _DENSE_PRODUCT
    else:  # how many pairs are above a cutoff is not known
        held = n * (1 + UNION * (choice.n_neighbors or _TYPICAL_NEIGHBORS))
    return held * (_SPARSE_ENTRY[0] + _SPARSE_ENTRY[1] * columns) * (_GPU_GRAPH if choice.on_gpu else 1.0)


def _search(shape: tuple[int, ...], options: KernelOptions, choice: Choice, entries: int | None) -> float:
    """Seconds of a search for neighbours, 0 if there is none."""
    n, d = int(shape[0]), int(shape[1])
    if options.affinity == "precomputed" or choice.n_neighbors is None:
        return 0.0
    kind = index_kind(shape, options.measure, entries is not None, choice.device)
    pairs = float(n) * n
    if kind == "tree":
        return n * _TREE_POINT[d - 1]
    if kind == "clusters":
        return n * _CLUSTER_POINT + _COMPARED_SHARE * pairs / 2.0 * (_CLUSTER_PAIR[0] + _CLUSTER_PAIR[1] * d)
    if kind == "device":
        return pairs * (_GPU_PAIR[0] + _GPU_PAIR[1] * d)
    return pairs * _BLOCK_PAIR + _distances(shape, options, entries)


def _distances(shape: tuple[int, ...], options: KernelOptions, entries: int | None) -> float:
    """Seconds that the features of all points take in an exact search, or in a dense kernel."""
    if options.measure.precomputed:
        return 0.0
    numbers = float(shape[0]) * shape[1] if entries is None else float(entries)
    return numbers * (_NUMBER + _FEATURE_PAIR * shape[0])


def _kernel(shape: tuple[int, ...], options: KernelOptions, choice: Choice, entries: int | None) -> float:
    """Seconds in which the entries of the kernel are computed and stored."""
    n = int(shape[0])
    if choice.tiled or options.affinity == "precomputed":
        return 0.0
    if choice.n_neighbors is None:
        return float(n) * n * _DENSE_PAIR + _distances(shape, options, entries)
    return n * _GRAPH_POINT * (_GPU_GRAPH if choice.on_gpu else 1.0)


def tiled(n_samples: int, n_features: int, n_columns: int) -> float:
    """Seconds of one core for a product with a kernel that is formed on the fly."""
    return n_samples * float(n_samples) / 2.0 * (_TILE_PAIR[0] + _TILE_PAIR[1] * (n_features + 2 * n_columns))


def fused(n_samples: int, n_features: int, dtype: Any, device: Device) -> float:
    """Seconds of a GPU for a product, of up to 64 columns, with a kernel that is formed on the fly."""
    pair = _FUSED_PAIR[0] + _FUSED_PAIR[1] * n_features
    if np.dtype(dtype) == np.float64:
        pair *= _FLOAT64
    return n_samples * float(n_samples) * pair * _MULTIPROCESSORS / device.multiprocessors


def here(steps: list[Step], *, measured: bool = False) -> list[Step]:
    """The steps with their seconds on this machine, whose speed is measured if wanted, or if they take long."""
    measured = measured or sum(seconds for _, seconds in steps) > _MOMENT
    return [(name, seconds * _slowness()) for name, seconds in steps] if measured else steps


@cache
def _slowness() -> float:
    """How many times longer a matrix product takes here than on the machine of the constants above."""
    A = np.full((_SIZE, _SIZE), 0.5, dtype=np.float32)
    seconds = min(timeit.repeat(lambda: product(A, A), number=1, repeat=_REPEATS))
    return max(_REFERENCE_FLOPS * seconds / (2.0 * _SIZE**3), 0.1)
