"""Embed the data sets that ship with heatsketch: a table to read and pictures to look at.

Run ``make demo``, or ``python examples/demo.py --output DIR``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import heatsketch as hs

METHODS = {
    "diffusion maps": lambda k, seed, **kernel: hs.DiffusionMaps(k, **kernel),  # noqa: ARG005
    "Gaussian process": lambda k, seed, **kernel: hs.GaussianProcessEmbedding(k, random_state=seed, **kernel),
    "the same, signs": lambda k, seed, **kernel: hs.GaussianProcessEmbedding(
        k, random_state=seed, sketch="rademacher", **kernel
    ),
    "half exact, half sketched": lambda k, seed, **kernel: hs.GaussianProcessEmbedding(
        k, random_state=seed, n_exact=k // 2, **kernel
    ),
    "HeatSketch": lambda k, seed, **kernel: hs.HeatSketch(k, objective="bilipschitz", random_state=seed, **kernel),
}
# Okabe and Ito's colours, which the colour-blind can tell apart.
COLOURS = dict(zip(METHODS, ("#0072B2", "#D55E00", "#E69F00", "#009E73", "#000000"), strict=True))


@dataclass(frozen=True)
class Row:
    """A line of the table: log L as mean and standard deviation over the trials, seconds of one fit."""

    data: str
    method: str
    k: int
    log_distortion: float
    spread: float
    seconds: float


def measure(data: str, samples: list[np.ndarray], ks: list[int], **kernel: object) -> list[Row]:
    """Fit every method on every sample and measure the distortion of the diffusion distance."""
    rows = []
    for method, make in METHODS.items():
        for k in ks:
            logs, seconds = [], []
            for trial, X in enumerate(samples):
                start = time.perf_counter()
                model = make(k, trial, **kernel).fit(X)
                seconds.append(time.perf_counter() - start)
                logs.append(model.distortion().log)
            rows.append(Row(data, method, k, np.mean(logs), np.std(logs), np.median(seconds)))
    return rows


def show(rows: list[Row]) -> None:
    """Print the table."""
    print(f"\n{'data':<22}{'method':<28}{'k':>4}{'log L':>16}{'seconds':>10}")
    last = None
    for row in rows:
        if last not in (None, row.data):
            print()
        last = row.data
        log = f"{row.log_distortion:.2f}" + (f" ± {row.spread:.2f}" if row.spread else "")
        print(f"{row.data:<22}{row.method:<28}{row.k:>4}{log:>16}{row.seconds:>10.3f}")
    print("\nlog L: logarithm of the largest over the smallest ratio of embedded to diffusion distance; 0 is perfect.")


def chart(ax: plt.Axes, rows: list[Row], title: str) -> None:
    """Distortion against dimension, with the standard deviation as error bars."""
    for method, colour in COLOURS.items():
        mine = [row for row in rows if row.method == method]
        ax.errorbar(
            [row.k for row in mine],
            [row.log_distortion for row in mine],
            [row.spread for row in mine],
            color=colour,
            label=method,
            marker="o",
            markersize=4,
            capsize=2,
        )
    ax.set(xlabel="dimension k", ylabel="log L", title=title)
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=8)


def bare(ax: plt.Axes, title: str) -> None:
    """Take the ticks off a picture of points; only their mutual distances mean something."""
    ax.set_title(title, fontsize=10)
    ax.set(xticks=[], yticks=[])
    if ax.name == "3d":
        ax.set_zticks([])
    else:
        ax.set_aspect("equal", "datalim")


def draw_torus(rows: list[Row], output: Path) -> None:
    """The stretched torus: diffusion maps do not see the small circle, whose angle is the colour."""
    X, angles = hs.datasets.stretched_torus(2500, random_state=0, return_parameters=True)
    kernel = {"power": 10, "bandwidth": 0.3}
    figure = plt.figure(figsize=(16, 4.2))
    chart(figure.add_subplot(1, 4, 1), rows, "Stretched torus, 500 points: distortion of distances")
    least = hs.HeatSketch(3, objective="bilipschitz", random_state=0, **kernel)
    models = {
        "Diffusion maps, k = 3:\nthe small circle (colour) is lost": hs.DiffusionMaps(3, **kernel),
        "Gaussian process, k = 3:\nit shows": hs.GaussianProcessEmbedding(3, random_state=0, **kernel),
        "HeatSketch, k = 3:\nboth circles have their room": least,
    }
    for place, (name, model) in enumerate(models.items(), start=2):
        Y = model.fit_transform(X)
        ax = figure.add_subplot(1, 4, place, projection="3d")
        ax.scatter(*Y.T, c=angles[:, 0], cmap="twilight_shifted", s=5, linewidths=0)
        bare(ax, name)
        ax.set_box_aspect(np.ptp(Y, axis=0), zoom=1.15)
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.set_pane_color("white")
    figure.tight_layout()
    figure.savefig(output / "stretched_torus.png", dpi=130)
    plt.close(figure)


def draw_outliers(output: Path) -> None:
    """The circle with two outliers: they own the leading eigenvectors."""
    X, theta = hs.datasets.circle_with_outliers(200, random_state=0, return_parameters=True)
    kernel = {"power": 4, "bandwidth": 0.5}
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.8))
    pictures = [("The data: a circle and two outliers", X)]
    pictures += [
        (f"{name[0].upper()}{name[1:]}, k = 2", METHODS[name](2, 0, **kernel).fit_transform(X))
        for name in ("diffusion maps", "Gaussian process", "HeatSketch")
    ]
    for ax, (title, Y) in zip(axes, pictures, strict=True):
        size = np.ptp(Y[:-2], axis=0).max() / np.ptp(Y, axis=0).max()
        ax.scatter(*Y[:-2].T, c=theta[:-2], cmap="twilight", s=14, linewidths=0)
        ax.scatter(*Y[-2:].T, marker="*", s=130, color="#D55E00", label="outliers")
        bare(ax, f"{title}\nthe circle takes {100 * size:.2g}% of the width" if Y is not X else f"{title}\n")
        if Y is not X:
            magnify(ax, Y, theta)
    axes[0].legend(frameon=False, loc="upper right")
    figure.tight_layout()
    figure.savefig(output / "circle_with_outliers.png", dpi=130)
    plt.close(figure)


def magnify(ax: plt.Axes, Y: np.ndarray, theta: np.ndarray) -> None:
    """Show the circle once more, enlarged, in the emptiest corner."""
    low, high = Y.min(axis=0), Y.max(axis=0)
    places = (Y - (low + high) / 2) / np.ptp(Y, axis=0).max() + 0.5
    corners = [(0.03, 0.1), (0.55, 0.1), (0.03, 0.55), (0.55, 0.55)]
    room = [np.linalg.norm(places - np.add(corner, 0.21), axis=1).min() for corner in corners]
    inset = ax.inset_axes((*corners[int(np.argmax(room))], 0.42, 0.42))
    inset.scatter(*Y[:-2].T, c=theta[:-2], cmap="twilight_shifted", s=5, linewidths=0)
    bare(inset, "")
    inset.set_xlabel("the circle alone", fontsize=8, labelpad=2)


def draw_digits(X: np.ndarray, labels: np.ndarray, output: Path) -> None:
    """Handwritten digits: a picture, and how well neighbours in the embedding name the digit."""
    ks = [2, 4, 8, 16, 32, 64]
    figure, (plane, curve) = plt.subplots(1, 2, figsize=(12.5, 5.6))
    for method, make in METHODS.items():
        if method == "HeatSketch":  # six fits for the worst distance would take longer than everything else
            continue
        accuracy = []
        for k in ks:
            Y = make(k, 0).fit_transform(X)
            accuracy.append(cross_val_score(KNeighborsClassifier(5), Y, labels, cv=5).mean())
        curve.plot(ks, accuracy, marker="o", markersize=4, color=COLOURS[method], label=method)
    raw = cross_val_score(KNeighborsClassifier(5), X, labels, cv=5).mean()
    curve.axhline(raw, color="0.4", linestyle="--", linewidth=1, label="raw pixels, 64 dimensions")
    curve.set(xscale="log", xlabel="dimension k", ylabel="accuracy (5-fold)", xticks=ks, xticklabels=ks, ylim=(0.5, 1))
    curve.set_title("5 nearest neighbours name the digit (embedding of all images, labels in 5 folds)", fontsize=10)
    curve.minorticks_off()
    curve.legend(frameon=False)

    Y = hs.HeatSketch(2, random_state=0).fit_transform(X)
    plane.scatter(*Y.T, c=labels, cmap="tab10", s=8, alpha=0.7, linewidths=0)
    for digit in range(10):
        plane.text(*np.median(Y[labels == digit], axis=0), str(digit), fontsize=15, weight="bold", ha="center")
    bare(plane, "HeatSketch, k = 2")
    figure.tight_layout()
    figure.savefig(output / "digits.png", dpi=130)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out"), help="folder for the pictures (default: out)")
    parser.add_argument("--trials", type=int, default=5, help="samples of each of the paper's sets (default: 5)")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)

    print(f"heatsketch {hs.__version__}: embeddings as sketches of the heat kernel, Y = h(A) M")
    torus = [hs.datasets.stretched_torus(500, random_state=trial) for trial in range(options.trials)]
    rows = measure("stretched torus", torus, [2, 3, 4, 6, 8, 12], power=10, bandwidth=0.3)
    circles = [hs.datasets.circle_with_outliers(200, random_state=trial) for trial in range(options.trials)]
    outliers = measure("circle + outliers", circles, [2, 3, 4], power=4, bandwidth=0.5)
    X, labels = hs.datasets.digits()
    digits = measure("digits", [X], [2, 16, 64])
    show([row for row in rows if row.k in (2, 4, 8)] + outliers + digits)

    draw_torus(rows, options.output)
    draw_outliers(options.output)
    draw_digits(X, labels, options.output)
    for picture in sorted(options.output.glob("*.png")):
        print(f"wrote {picture}")
    return rows + outliers + digits


if __name__ == "__main__":
    main()
