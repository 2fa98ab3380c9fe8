"""Draw the scales of a fitted embedding, and which neighbours in the picture to believe.

Run ``python examples/choices.py --output docs/images``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from matplotlib import pyplot as plt

import heatsketch as hs


def main(arguments: list[str] | None = None) -> None:
    """Fit, ask and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR")
    output = parser.parse_args(arguments).output
    output.mkdir(parents=True, exist_ok=True)
    X = hs.datasets.stretched_torus(1000, random_state=0)

    model = hs.GaussianProcessEmbedding(n_components=16, random_state=0).fit(X)
    above, _ = model.scales().plot()
    above.figure.savefig(output / "scales.png", dpi=110)

    _, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    sketch = hs.HeatSketch(2, power=16, objective="bilipschitz", random_state=0)
    for ax, estimator in zip(axes, (hs.DiffusionMaps(2, power=16), sketch), strict=True):
        support = estimator.fit(X).unsupported_neighbors()
        support.plot(ax)
        ax.set_title(f"{type(estimator).__name__}: {1 - support.supported.mean():.0%} of neighbours not supported")
    axes[0].figure.savefig(output / "support.png", dpi=110)


if __name__ == "__main__":
    main()
