"""Compare the bandwidth rules on data whose geometry or labels are known, and write the table of docs/bandwidth.md.

Run ``python benchmarks/bandwidth_rules.py`` (a minute or two); the table between the markers is replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr
from sklearn.datasets import make_swiss_roll
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph

import heatsketch as hs

PAGE = Path(__file__).parent.parent / "docs" / "bandwidth.md"
RULES = {
    "median": ("median", None),
    "slope": ("slope", None),
    "neighbor, k = 5": ("neighbor", 5),
    "neighbor, k = 10": ("neighbor", 10),
    "neighbor, k = 20": ("neighbor", 20),
    "self-tuning": ("self-tuning", None),
}
POWERS = 2.0 ** np.arange(11)
SEEDS = range(3)
PAIRS = 4000


def on_circle(theta: np.ndarray) -> np.ndarray:
    """Geodesic distances between angles."""
    apart = np.abs(theta[:, None] - theta[None, :])
    return np.minimum(apart, 2 * np.pi - apart)


def data_sets(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, points, and either geodesic distances (square) or labels (one for each point)."""
    rng = np.random.RandomState(seed)
    X, theta = hs.datasets.circle(300, rng, return_parameters=True)
    yield "circle", X, on_circle(theta)
    X, angles = hs.datasets.stretched_torus(500, random_state=rng, return_parameters=True)
    yield "stretched torus", X, np.hypot(on_circle(angles[:, 0]), 3.5 * on_circle(angles[:, 1]))
    X = rng.normal(size=(500, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    yield "sphere", X, np.arccos(np.clip(X @ X.T, -1, 1))
    X = hs.datasets.klein_bottle(500, random_state=rng)
    whole = np.vstack([X, hs.datasets.klein_bottle(6000, random_state=rng)])  # geodesics along a dense sample
    graph = kneighbors_graph(whole, 10, mode="distance")
    yield "Klein bottle", X, shortest_path(graph, directed=False, indices=range(500))[:, :500]
    X, theta = hs.datasets.circle_with_outliers(200, rng, return_parameters=True)
    geodesic = on_circle(theta)
    geodesic[-2:], geodesic[:, -2:] = cdist(X, X)[-2:], cdist(X, X)[:, -2:]
    yield "circle + outliers", X, geodesic
    X, t = make_swiss_roll(1000, random_state=seed)
    flat = np.column_stack([0.5 * (t * np.sqrt(1 + t**2) + np.arcsinh(t)), X[:, 1]])
    yield "swiss roll", X, cdist(flat, flat)
    theta = 2 * np.pi * rng.beta(1, 4, size=500)
    yield "uneven circle", np.column_stack([np.cos(theta), np.sin(theta)]), on_circle(theta)
    X, labels = hs.datasets.gaussian_clouds(300, random_state=rng, return_labels=True)
    yield "Gaussian clouds", X, labels
    sizes, spreads, centres = (150, 150, 100), (0.1, 1.0, 3.0), ((0, 0), (6, 0), (0, 20))
    X = np.vstack([s * rng.normal(size=(n, 2)) + c for n, s, c in zip(sizes, spreads, centres, strict=True)])
    yield "unequal clusters", X, np.repeat(range(3), sizes)
    if seed == 0:
        yield "digits", *hs.datasets.digits()


def score(X: np.ndarray, truth: np.ndarray, rule: str, n_neighbors: int | None) -> float:
    """Best over all powers: rank correlation with geodesics, or accuracy of the nearest neighbour's label."""
    epsilon = hs.estimate_bandwidth(X, rule, n_neighbors=n_neighbors).epsilon
    kernel = hs.heat_kernel(X, bandwidth=rule if np.ndim(epsilon) else float(epsilon))
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    values[-1] = 0.0  # the trivial mode
    pairs = np.random.default_rng(0).integers(0, len(X), (PAIRS, 2))
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
                results.setdefault(name, {}).setdefault(column, []).append(score(X, truth, rule, k))
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
