"""Draw a fitted embedding in four ways: its points, its distortion, how sure it is, and the kernel's spectrum.

Run ``python examples/pictures.py --output docs/images``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matplotlib import pyplot as plt

import heatsketch as hs


def main(arguments: list[str] | None = None) -> None:
    """Fit and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR")
    parser.add_argument("--samples", type=int, default=1797, help="how many of the digits", metavar="N")
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    images, digits = hs.datasets.digits()
    images, digits = images[: given.samples], digits[: given.samples]
    model = hs.HeatSketch(n_components=3, random_state=0).fit(images)

    figure, axes = plt.subplots(2, 2, figsize=(12, 8.4), layout="constrained")
    hs.plot_embedding(model, color=digits, dims=(0, 1), label="digit", ax=axes[0, 0])
    hs.plot_distortion(model, ax=axes[0, 1])
    hs.plot_intervals(model, ax=axes[1, 0])
    hs.plot_spectrum(model, ax=axes[1, 1])
    figure.savefig(given.output / "pictures.png", dpi=90)


if __name__ == "__main__":
    main()
