"""Compare the bandwidth rules on data whose geometry or labels are known, and write the table of docs/bandwidth.md.

Run ``python -m benchmarks.bandwidth_rules`` (some minutes); the table between the markers is replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.neighbors import KNeighborsClassifier

import heatsketch as hs

from .choices.geometry import GEOMETRY
from .choices.held_out import unequal_clusters

PAGE = Path(__file__).parent.parent / "docs" / "bandwidth.md"
RULES = {
    "median": ("median", None),
    "slope": ("slope", None),
    "neighbor, k = 5": ("neighbor", 5),
    "neighbor, k = 10": ("neighbor", 10),
    "neighbor, k = 20": ("neighbor", 20),
    "self-tuning": ("self-tuning", None),
    "with the time (auto)": ("auto", None),
}
POWERS = 2.0 ** np.arange(11)
SEEDS = range(3)
PAIRS = 4000


def data_sets(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, points, and either geodesic distances (square) or labels (one for each point)."""
    rng = np.random.default_rng(seed)
    for name, sample in GEOMETRY.items():
        yield name, *sample(500, rng)
    yield "Gaussian clouds", *hs.datasets.gaussian_clouds(300, random_state=rng, return_labels=True)
    yield "unequal clusters", *unequal_clusters(400, rng)
    if seed == 0:
        yield "digits", *hs.datasets.digits()


def make_kernel(X: np.ndarray, rule: str, n_neighbors: int | None) -> hs.HeatKernel:
    """The heat kernel with the bandwidth of a rule; of that which is chosen together with the time, for "auto"."""
    if rule == "auto":
        return hs.DiffusionMaps(1, power="auto").fit(X).kernel_
    epsilon = hs.estimate_bandwidth(X, rule, n_neighbors=n_neighbors).epsilon
    return hs.heat_kernel(X, bandwidth=rule if np.ndim(epsilon) else float(epsilon))


def score(kernel: hs.HeatKernel, truth: np.ndarray) -> float:
    """Best over all powers: rank correlation with geodesics, or accuracy of the nearest neighbour's label."""
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    values[-1] = 0.0  # the trivial mode
    pairs = np.random.default_rng(0).integers(0, len(values), (PAIRS, 2))
    found = []
    for power in POWERS:
        Y = vectors * np.maximum(values, 0) ** power
        if not np.abs(Y).max() > 1e-150:
            break  # nothing is left at this time
        Y /= np.abs(Y).max()
        if truth.ndim == 2:
            d = np.linalg.norm(Y[pairs[:, 0]] - Y[pairs[:, 1]], axis=1)
            found.append(spearmanr(d, truth[pairs[:, 0], pairs[:, 1]])[0])
        else:
            nearest = KNeighborsClassifier(1).fit(Y[:, -100:], truth).kneighbors(return_distance=False)[:, 0]
            found.append(np.mean(truth[nearest] == truth))
    return float(max(found))


def main() -> None:
    """Measure, print and write the table."""
    results: dict[str, dict[str, list[float]]] = {}
    for seed in SEEDS:
        for name, X, truth in data_sets(seed):
            for column, (rule, k) in RULES.items():
                results.setdefault(name, {}).setdefault(column, []).append(score(make_kernel(X, rule, k), truth))
            print(seed, name, {c: round(v[-1], 3) for c, v in results[name].items()}, file=sys.stderr)
    lines = ["| data | " + " | ".join(RULES) + " |", "|---|" + "---|" * len(RULES)]
    for name, row in results.items():
        lines.append(f"| {name} | " + " | ".join(f"{np.mean(v):.3f}" for v in row.values()) + " |")
    worst = {c: min(np.mean(row[c]) for row in results.values()) for c in RULES}
    lines.append("| **worst** | " + " | ".join(f"**{v:.3f}**" for v in worst.values()) + " |")
    head, _, rest = PAGE.read_text().partition("<!-- table -->\n")
    _, _, tail = rest.partition("<!-- end of table -->")
    PAGE.write_text(f"{head}<!-- table -->\n" + "\n".join(lines) + f"\n<!-- end of table -->{tail}")


if __name__ == "__main__":
    main()
