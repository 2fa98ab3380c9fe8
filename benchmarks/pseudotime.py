"""Compare pseudotimes with known times on simulated trajectories, beside scanpy's dpt and Palantir.

``python -m benchmarks.pseudotime developing second third times`` runs these groups of trials and replaces their tables
under ``docs/trajectories/tables``. ``--palantir PYTHON`` gives an interpreter with Palantir installed.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

import heatsketch as hs

from .data import branching_tree, tree_with_geodesics

HERE = Path("docs/trajectories")
LEVEL = 0.95
DRAWS = 5
_DIMENSION, _NOISE = 50, 0.04


class Trajectory(NamedTuple):
    """Points, their true time from the root along the noiseless shape, their branch, and the root."""

    X: Any
    time: Any
    branch: Any
    root: int


def _tree(
    rng: np.random.Generator, n: int, parents: Sequence[int], *, bend: float = 0.5, dimension: int = _DIMENSION
) -> Trajectory:
    """Bent branches of length about 1, each from the end of its parent, with uneven numbers of points and no noise."""
    starts, times, paths = [], [], []
    for parent in parents:
        first, second = np.linalg.qr(rng.standard_normal((dimension, 2)))[0].T
        along = np.linspace(0.0, rng.uniform(0.7, 1.3), 201)
        angle = bend * np.pi * along / along[-1]
        steps = np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * second
        steps = np.diff(along)[:, None] * (steps[1:] + steps[:-1]) / 2.0
        starts.append(starts[parent] + paths[parent][1][-1] if parent >= 0 else np.zeros(dimension))
        times.append(times[parent] + paths[parent][0][-1] if parent >= 0 else 0.0)
        paths.append((along, np.vstack([np.zeros(dimension), np.cumsum(steps, axis=0)])))
    branch = rng.choice(len(parents), size=n, p=rng.dirichlet(np.full(len(parents), 3.0)))
    share = rng.beta(*rng.uniform(0.7, 2.0, 2), size=n)
    X, true = np.empty((n, dimension)), np.empty(n)
    for number, (along, path) in enumerate(paths):
        here = branch == number
        at = share[here] * along[-1]
        X[here] = starts[number] + np.column_stack([np.interp(at, along, column) for column in path.T])
        true[here] = times[number] + at
    return Trajectory(X, true, branch, int(true.argmin()))


def _noisy(shape: Trajectory, rng: np.random.Generator, noise: float = _NOISE) -> Trajectory:
    return shape._replace(X=shape.X + noise * rng.standard_normal(shape.X.shape))


def tree(rng: np.random.Generator) -> Trajectory:
    """Tree of 3, 5 or 7 branches in R^50, 800 points."""
    return _noisy(_tree(rng, 800, [-1, 0, 0, 1, 1, 2, 2][: rng.choice([3, 5, 7])]), rng)


def line(rng: np.random.Generator) -> Trajectory:
    """One bent branch of uneven density, in R^50."""
    return _noisy(_tree(rng, 800, [-1], bend=1.2), rng)


def loop(rng: np.random.Generator) -> Trajectory:
    """A loop with a tail and the root at the end of the tail; both sides of the loop count as branches."""
    tail, turn = 1.5 * rng.beta(1.5, 1.0, 270), rng.uniform(-np.pi, np.pi, 530)
    P = np.zeros((800, _DIMENSION))
    P[:270, 0], P[270:, 0], P[270:, 1] = tail, 2.0 - 0.5 * np.cos(turn), 0.5 * np.sin(turn)
    true = np.concatenate([tail, 1.5 + 0.5 * np.abs(turn)])
    branch = np.concatenate([np.zeros(270, dtype=int), np.where(turn > 0, 1, 2)])
    return _noisy(Trajectory(P, true, branch, int(true.argmin())), rng)


def counts(rng: np.random.Generator, parents: Sequence[int] | None = None, depth: float = 3000.0) -> Trajectory:
    """50 principal components of log-normalised negative binomial counts of 1,000 genes along a tree."""
    parents = [-1, 0, 0, 1, 1][: rng.choice([3, 5])] if parents is None else parents
    shape = _tree(rng, 800, parents, dimension=20)
    loadings = 0.8 * rng.standard_normal((20, 1000)) * rng.gamma(1.0, 1.0, 1000)
    mean = np.exp(rng.normal(-1.0, 1.2, 1000) + shape.X @ loadings)
    mean *= (depth * rng.lognormal(0.0, 0.3, 800) / mean.sum(axis=1))[:, None]
    found = rng.poisson(rng.gamma(2.0, mean / 2.0))
    X = np.log1p(1e4 * found / found.sum(axis=1, keepdims=True))
    return shape._replace(X=PCA(50, random_state=0).fit_transform(X))


def walks(rng: np.random.Generator) -> Trajectory:
    """Branching random walks in R^50, without labels of branches."""
    X, geodesics = tree_with_geodesics(800, _DIMENSION, 0.1, rng)
    root = int(geodesics.mean(axis=1).argmax())
    return Trajectory(X, geodesics[root], np.zeros(800, dtype=int), root)


def wide_tree(rng: np.random.Generator) -> Trajectory:
    """Tree of nine branches, three from each end, in R^100."""
    return _noisy(_tree(rng, 800, [-1, 0, 0, 0, 1, 1, 2, 2, 2], dimension=100), rng, 0.03)


def deep_counts(rng: np.random.Generator) -> Trajectory:
    """As `counts`, seven branches and half the counts."""
    return counts(rng, [-1, 0, 0, 1, 1, 2, 2], 1500.0)


def broken_tree(rng: np.random.Generator) -> Trajectory:
    """Tree of five branches with a gap: a stretch of one branch has no points."""
    shape = _tree(rng, 1000, [-1, 0, 0, 1, 1])
    start, end = (np.quantile(shape.time[shape.branch == 2], q) for q in (0.2, 0.7))
    kept = ~((shape.branch == 2) & (shape.time > start) & (shape.time < end))
    X, true, branch = (some[kept] for some in shape[:3])
    return _noisy(Trajectory(X, true, branch, int(true.argmin())), rng, 0.02)


def bushy_tree(rng: np.random.Generator) -> Trajectory:
    """Tree of eleven branches, four from the first, in R^30, with 1,000 points and more noise."""
    return _noisy(_tree(rng, 1000, [-1, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3], dimension=30), rng, 0.05)


def long_tree(rng: np.random.Generator) -> Trajectory:
    """Tree of six strongly bent branches with a long trunk, in R^20, 600 points."""
    return _noisy(_tree(rng, 600, [-1, 0, 0, 1, 1, 3], bend=1.0, dimension=20), rng, 0.03)


def dense_root(rng: np.random.Generator) -> Trajectory:
    """Tree of four branches in R^60, with only 30% of the points beyond the median time."""
    shape = _tree(rng, 1200, [-1, 0, 0, 0], bend=0.8, dimension=60)
    kept = (shape.time < np.median(shape.time)) | (rng.uniform(size=1200) < 0.3)
    X, true, branch = (some[kept] for some in shape[:3])
    return _noisy(Trajectory(X, true, branch, int(true.argmin())), rng)


def sparse_counts(rng: np.random.Generator) -> Trajectory:
    """As `counts`, four branches and a total of 2,000."""
    return counts(rng, [-1, 0, 0, 1], 2000.0)


Maker = Callable[[np.random.Generator], Trajectory]
GROUPS: dict[str, dict[str, Maker]] = {
    "developing": {"tree": tree, "line": line, "loop": loop, "counts": counts},
    "second": {"walks": walks, "wide tree": wide_tree, "deep counts": deep_counts, "broken tree": broken_tree},
    "third": {
        "bushy tree": bushy_tree,
        "long tree": long_tree,
        "dense root": dense_root,
        "sparse counts": sparse_counts,
    },
}
SEEDS = {"developing": 0, "second": 1000, "third": 2000}

PALANTIR = """
import sys
import numpy, pandas, palantir
X = pandas.DataFrame(numpy.load(sys.argv[1]))
X.index = X.index.astype(str)
space = palantir.utils.determine_multiscale_space(palantir.utils.run_diffusion_maps(X))
options = {"num_waypoints": 500, "use_early_cell_as_start": True, "n_jobs": 1}
found = palantir.core.run_palantir(space, sys.argv[2], **options)
numpy.save(sys.argv[3], found.pseudotime.loc[X.index].to_numpy())
"""


def by_palantir(X: Any, root: int, python: str) -> Any:
    """Palantir's pseudotime with its default settings, in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "X.npy"), Path(folder, "time.npy")
        np.save(given, X)
        subprocess.run([python, "-c", PALANTIR, given, str(root), found], check=True, capture_output=True)
        return np.load(found)


def by_dpt(X: Any, root: int, branchings: int) -> tuple[Any, Any]:
    """Times of ``sc.tl.dpt`` with scanpy's defaults, and its groups if the number of branchings is not 0."""
    import anndata  # noqa: PLC0415
    import scanpy as sc  # noqa: PLC0415

    cells = anndata.AnnData(X.astype(np.float32))
    sc.pp.neighbors(cells, use_rep="X")
    sc.tl.diffmap(cells)
    cells.uns["iroot"] = root
    sc.tl.dpt(cells)
    found, groups = cells.obs["dpt_pseudotime"].to_numpy(), None
    if branchings:
        try:
            sc.tl.dpt(cells, n_branchings=branchings)
            groups = cells.obs["dpt_groups"].astype(str).to_numpy()
        except (ValueError, IndexError, KeyError) as error:  # counted as failed in the table
            print(f"dpt with {branchings} branchings: {error!r}")
    return found, groups


def judged(found: Any, true: Any, branch: Any = None, groups: Any = None) -> dict[str, Any]:
    """Correlations with the true time (infinite times count as the last one), and agreement of branches."""
    finite = np.isfinite(found)
    filled = np.where(finite, found, found[finite].max())
    row = {
        "spearman": spearmanr(filled, true)[0],
        "pearson": pearsonr(filled, true)[0],
        "not finite": 1.0 - finite.mean(),
    }
    return row if groups is None else row | {"branches": adjusted_rand_score(branch, groups)}


def trial(shape: Trajectory, palantir: str | None) -> list[dict[str, Any]]:
    """A row for each method."""
    X, true, branch, root = shape
    n_branches = len(np.unique(branch))
    rows = []
    start = time.perf_counter()
    model = hs.GaussianProcessEmbedding(2, random_state=0).fit(X)
    rows.append({"method": "fit alone", "seconds": time.perf_counter() - start})
    for kind in ("geodesic", "diffusion"):
        start = time.perf_counter()
        found = model.pseudotime(root, kind=kind, interval=LEVEL)
        seconds = time.perf_counter() - start
        exact = hs.pseudotime(model.kernel_, root, model.power_, kind=kind)
        here, length = exact.gaps == 0, exact.time * exact.unit
        inside = (found.low * found.unit <= length) & (length <= found.high * found.unit)
        row = {"method": f"{kind}, sketched", "seconds": seconds, "covered": inside[here].mean()}
        row["width"] = np.median((found.high - found.low)[here])
        groups = found.branches() if kind == "geodesic" and n_branches > 1 else None
        rows.append(row | judged(found.time, true, branch, groups))
        rows.append({"method": f"{kind}, exact"} | judged(exact.time, true))
    start = time.perf_counter()
    found = model.pseudotime(root, kind="path")
    row = {"method": "path, sketched", "seconds": time.perf_counter() - start}
    rows.append(row | judged(found.time, true, branch, found.branches() if n_branches > 1 else None))
    start = time.perf_counter()
    dpt, groups = by_dpt(X, root, (n_branches - 1) // 2)
    rows.append({"method": "dpt", "seconds": time.perf_counter() - start} | judged(dpt, true, branch, groups))
    if palantir is not None:
        rows.append({"method": "Palantir"} | judged(by_palantir(X, root, palantir), true))
    return rows


def times(n: int) -> list[dict[str, Any]]:
    """Seconds of a fit and of a pseudotime with intervals for a tree of n points."""
    X, _ = branching_tree(n)
    rows = []
    for name, kind in (("GaussianProcessEmbedding", hs.GaussianProcessEmbedding), ("HeatSketch", hs.HeatSketch)):
        start = time.perf_counter()
        model = kind(2, random_state=0).fit(X)
        rows.append({"method": f"{name}(2).fit", "points": n, "seconds": time.perf_counter() - start})
    for kind in ("geodesic", "path", "diffusion"):
        start = time.perf_counter()
        model.pseudotime(0, kind=kind, interval=None if kind == "path" else LEVEL)
        rows.append({"method": f"pseudotime, {kind}", "points": n, "seconds": time.perf_counter() - start})
    return rows


def write(group: str, rows: list[dict[str, Any]]) -> None:
    """Write the rows of a group as a table."""
    path = HERE / "tables" / f"{group}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()})


def main(arguments: list[str] | None = None) -> None:
    """Run groups of trials and write their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, "times"])
    parser.add_argument("--palantir", metavar="PYTHON")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for group in given.groups:
        rows: list[dict[str, Any]] = []
        if group == "times":
            rows = [row for n in (2000, 20_000) for row in times(n)]
        else:
            for (name, make), draw in [(item, draw) for item in GROUPS[group].items() for draw in range(DRAWS)]:
                found = trial(make(np.random.default_rng(SEEDS[group] + draw)), given.palantir)
                rows += [{"data": name, "draw": draw} | row for row in found]
                print(group, name, draw, flush=True)
        write(group, rows)


if __name__ == "__main__":
    main()
