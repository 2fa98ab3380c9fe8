"""Embed the blood cells that scanpy ships: HeatSketch beside UMAP, and cells that were not there when it was fitted.

Run ``python examples/scanpy_pbmc.py --output docs/images``. It needs scanpy and matplotlib.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import scanpy as sc
from matplotlib import pyplot as plt

import heatsketch as hs


def main(arguments: list[str] | None = None) -> None:
    """Embed, place and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR")
    output = parser.parse_args(arguments).output
    output.mkdir(parents=True, exist_ok=True)

    cells = sc.datasets.pbmc68k_reduced()
    hs.scanpy.heat_sketch(cells)
    reference, new = cells[::2].copy(), cells[1::2].copy()
    sc.pp.pca(reference, n_comps=50)
    hs.scanpy.heat_sketch(reference)
    hs.scanpy.place_cells(new, reference)

    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    kinds = cells.obs["bulk_labels"].cat
    colours = dict(zip(kinds.categories, plt.get_cmap("tab10").colors, strict=True))
    panels = {
        "HeatSketch": (cells, "X_heatsketch"),
        "UMAP, as it is shipped": (cells, "X_umap"),
        "HeatSketch of half of them, the others placed (x)": (new, "X_heatsketch"),
    }
    for ax, (title, (shown, basis)) in zip(axes, panels.items(), strict=True):
        if shown is new:
            ax.scatter(*reference.obsm[basis].T, s=6, c="0.8", linewidths=0)
        marker = "x" if shown is new else "o"
        for kind, colour in colours.items():
            of_kind = shown.obs["bulk_labels"] == kind
            width = {"linewidths": 0.8 if shown is new else 0}
            ax.scatter(*shown.obsm[basis][of_kind].T, s=10, color=colour, marker=marker, label=kind, **width)
        ax.set(title=title, xticks=[], yticks=[])
    axes[0].set_aspect("equal", adjustable="datalim")
    axes[2].set_aspect("equal", adjustable="datalim")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, markerscale=2)
    figure.savefig(output / "scanpy.png", dpi=90)


if __name__ == "__main__":
    main()
