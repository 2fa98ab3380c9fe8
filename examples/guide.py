"""Draw the pictures of the user guide.

Run ``python examples/guide.py --output docs/images``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sklearn.datasets import make_moons, make_swiss_roll

import heatsketch as hs

TIMES = (1, 16, 256)
NORMALIZATIONS = {
    "stochastic, alpha = 0": {"normalization": "stochastic", "alpha": 0.0},
    "stochastic, alpha = 1": {"normalization": "stochastic", "alpha": 1.0},
    "bistochastic": {"normalization": "bistochastic"},
    "bistochastic-weighted": {"normalization": "bistochastic-weighted"},
}


def heat() -> Figure:
    """Heat from one point of two moons at three times, and diffusion distances from it."""
    X, _ = make_moons(600, noise=0.05, random_state=0)
    kernel = hs.heat_kernel(X, bandwidth=0.03)
    start = int(np.argmin(X[:, 0]))
    figure, axes = plt.subplots(1, 4, figsize=(13, 2.9), layout="constrained")
    row = np.zeros(len(X))
    row[start] = 1.0
    powers = {t: np.linalg.matrix_power(kernel.toarray(), t) for t in TIMES}
    for ax, (t, power) in zip(axes, powers.items(), strict=False):
        spread = power @ row
        ax.scatter(*X.T, c=np.log10(np.maximum(spread / spread.max(), 1e-3)), cmap="inferno", s=9)
        ax.set_title(f"heat after {t} step{'s' if t > 1 else ''}")
    distances = np.linalg.norm(powers[TIMES[-1]] - powers[TIMES[-1]][start], axis=1)
    axes[-1].scatter(*X.T, c=distances, cmap="viridis", s=9)
    axes[-1].set_title(f"diffusion distance, t = {TIMES[-1]}")
    for ax in axes:
        ax.scatter(*X[start], marker="*", s=110, color="#0072B2", zorder=3)
        ax.set(xticks=[], yticks=[], aspect="equal")
    return figure


def normalizations() -> Figure:
    """A circle that is sampled unevenly, by diffusion maps of four kernels."""
    rng = np.random.default_rng(0)
    angle = np.sort(2 * np.pi * rng.beta(2.0, 2.0, size=600))
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    figure, axes = plt.subplots(1, 5, figsize=(13, 2.8), layout="constrained")
    axes[0].scatter(*X.T, c=angle, cmap="twilight", s=6)
    axes[0].set_title("the data, uneven")
    for ax, (name, options) in zip(axes[1:], NORMALIZATIONS.items(), strict=True):
        Y = hs.DiffusionMaps(2, power=1, bandwidth=0.05, **options).fit_transform(X)
        ax.scatter(*Y.T, c=angle, cmap="twilight", s=6)
        ax.set_title(name)
    for ax in axes:
        ax.set(xticks=[], yticks=[])
        ax.axis("equal")
    return figure


def intervals() -> Figure:
    """Estimated distances with intervals beside the exact ones, for 8 and 64 components."""
    X = hs.datasets.klein_bottle(500, random_state=0)
    pairs = np.random.default_rng(0).choice(500, size=(60, 2), replace=False)
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained", sharey=True)
    for ax, k in zip(axes, (8, 64), strict=True):
        model = hs.GaussianProcessEmbedding(k, power=4, bandwidth=2.0, random_state=0).fit(X)
        estimate, low, high = model.diffusion_distances(pairs, interval=0.95)
        exact = hs.diffusion_distances(model.kernel_, 4, pairs)
        order, place = np.argsort(exact), np.arange(len(pairs))
        ax.vlines(place, low[order], high[order], color="#0072B2", alpha=0.35, lw=3, label="95% interval")
        ax.plot(place, estimate[order], ".", color="#0072B2", label="estimate")
        ax.plot(place, exact[order], "x", color="k", ms=5, label="exact")
        ax.set(title=f"{k} components", xlabel="pair")
    axes[0].set_ylabel("diffusion distance")
    axes[0].legend(frameon=False)
    return figure


def new_points() -> Figure:
    """A swiss roll: fitted points in grey, new ones where their kernel rows place them."""
    X, position = make_swiss_roll(1500, noise=0.1, random_state=0)
    model = hs.HeatSketch(2, random_state=0).fit(X[:1000])
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    axes[0].scatter(X[:, 0], X[:, 2], c=position, s=5)
    axes[0].set_title("a swiss roll, from the side")
    axes[1].scatter(*model.embedding_.T, c="0.85", s=5)
    axes[1].scatter(*model.transform(X[1000:]).T, c=position[1000:], s=9)
    axes[1].set_title("1,000 points fitted (grey), 500 placed")
    for ax in axes:
        ax.set(xticks=[], yticks=[], aspect="equal")
    return figure


PICTURES = {"heat": heat, "normalizations": normalizations, "intervals": intervals, "new_points": new_points}


def main(arguments: list[str] | None = None) -> None:
    """Draw all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR")
    output = parser.parse_args(arguments).output
    output.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(output / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
