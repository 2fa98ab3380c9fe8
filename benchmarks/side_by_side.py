"""Draw the picture of the README: known data sets by HeatSketch and UMAP, with measures of each embedding.

Run ``python -m benchmarks.side_by_side --output docs/images``. It needs umap-learn, scanpy and matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scanpy as sc
from matplotlib import colormaps
from matplotlib import pyplot as plt
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.manifold import trustworthiness
from umap import UMAP

import heatsketch as hs

from .data import branching_tree

_NEIGHBORS, _REPEATS = 15, 3
_METHODS = {"HeatSketch": hs.HeatSketch, "UMAP": UMAP}
# Height of a label as a share of that of the picture, and its width in heights.
_LINE, _WIDE = 0.055, 4.0


def data() -> dict[str, tuple[Any, Any]]:
    """Points and groups by title."""
    images, digits = hs.datasets.digits()
    cells = sc.datasets.pbmc68k_reduced()
    kinds = cells.obs["bulk_labels"].astype(str).to_numpy()
    tree, branches = branching_tree(2000)
    return {
        "1,797 handwritten digits": (images, digits.astype(str)),
        "700 blood cells": (cells.obsm["X_pca"].astype(np.float64), kinds),
        "a noisy tree in 50 dimensions": (tree, branches.astype(str)),
    }


def embed(method: str, X: Any) -> tuple[Any, float]:
    """The embedding with a seed, and the median seconds of fits with the method's defaults.

    Times are without a seed, since a seed restricts UMAP to one thread.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Y = np.asarray(_METHODS[method](n_components=2, random_state=0).fit_transform(X))
        seconds = []
        for _ in range(_REPEATS):
            start = perf_counter()
            _METHODS[method](n_components=2).fit(X)
            seconds.append(perf_counter() - start)
    return Y, float(np.median(seconds))


def main(arguments: list[str] | None = None) -> None:
    """Embed, measure and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR")
    output = parser.parse_args(arguments).output
    output.mkdir(parents=True, exist_ok=True)
    sets = data()
    rows = []
    figure, axes = plt.subplots(2, len(sets), figsize=(10.5, 7.6), layout="constrained")
    for column, (title, (X, groups)) in enumerate(sets.items()):
        for ax, method in zip(axes[:, column], _METHODS, strict=True):
            Y, seconds = embed(method, X)
            kept = trustworthiness(X, Y, n_neighbors=_NEIGHBORS)
            rank = float(spearmanr(pdist(X), pdist(Y)).statistic)
            rows.append([title, method, f"{kept:.3f}", f"{rank:.2f}", f"{seconds:.2f}"])
            draw(ax, Y, groups)
            ax.set_xlabel(f"neighbours {kept:.2f},  distances {rank:.2f},  {seconds:.1f} s", fontsize=9)
        axes[0, column].set_title(title, fontsize=11)
    for ax, method in zip(axes[:, 0], _METHODS, strict=True):
        ax.set_ylabel(method, fontsize=12, fontweight="bold")
    figure.get_layout_engine().set(h_pad=0.08)
    figure.savefig(output / "side_by_side.png", dpi=130, bbox_inches="tight", pad_inches=0.15)
    with (output / "side_by_side.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["data", "method", "trustworthiness", "rank correlation", "seconds"], *rows])


def draw(ax: Any, Y: Any, groups: Any) -> None:
    """Draw points coloured by group, with the name of each group at its median."""
    names = np.unique(groups)
    middles = np.array([np.median(Y[groups == name], axis=0) for name in names])
    for name, colour in zip(names, colormaps["tab10"].colors, strict=False):
        ax.scatter(*Y[groups == name].T, color=colour, s=4, linewidths=0)
    ax.set(aspect="equal", adjustable="datalim", box_aspect=1, xticks=[], yticks=[])
    ax.margins(0.08)
    ax.spines[:].set_color("0.8")
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
    gap = _LINE * float(np.ptp(Y, axis=0).max())
    for name, (x, _), y in zip(names, middles, apart(middles, gap), strict=True):
        ax.text(x, y, short(name), ha="center", va="center", fontsize=8 if len(name) > 2 else 10, bbox=box)


def apart(middles: Any, gap: float) -> Any:
    """Heights of labels, moved up where labels would overlap."""
    heights = middles[:, 1].copy()
    placed: list[int] = []
    for i in np.argsort(heights):
        for other in placed:
            if abs(middles[i, 0] - middles[other, 0]) < _WIDE * gap and heights[i] < heights[other] + gap:
                heights[i] = heights[other] + gap
        placed.append(i)
    return heights


def short(name: str) -> str:
    """Name of a cell type without its marker, such as "NK" for "CD56+ NK"."""
    return name.split(" ", 1)[-1] if name.startswith("CD") else name


if __name__ == "__main__":
    main()
