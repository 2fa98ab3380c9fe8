"""Measure what docs/scale.md states: the error of neighbour graphs, and how well costs are foretold.

Run ``python benchmarks/large_data.py`` (a few minutes); the tables between the markers of the page are replaced.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import heatsketch as hs

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "scale.md"
sys.path.insert(0, str(ROOT))

from benchmarks.scale.data import swiss_roll, tree  # noqa: E402

POWER = 16
N_EXACT = 5000
N_PAIRS = 400
NEIGHBORS = (8, 16, 32, 64)
# Size, data set and options of the fits whose costs are foretold.
FITS = (
    (8_000, "tree", {}),
    (15_000, "tree", {}),
    (50_000, "swiss roll", {}),
    (50_000, "tree", {}),
    (200_000, "swiss roll", {}),
    (200_000, "tree", {}),
    (20_000, "tree", {"n_neighbors": None}),
    (1_000_000, "swiss roll", {}),
)
DATA = {"swiss roll": swiss_roll, "tree": tree}


def error_table() -> str:
    """Diffusion distances of neighbour graphs against those of all pairs, at the same bandwidth."""
    lines = [
        "| data, 5,000 points | pairs | " + " | ".join(f"k = {k}" for k in NEIGHBORS) + " | cutoff 1e-6 |",
        "|---|---|" + "---|" * (len(NEIGHBORS) + 1),
    ]
    sets = {
        "swiss roll": swiss_roll(N_EXACT).astype(np.float64),
        "tree in R^50": tree(N_EXACT).astype(np.float64),
        "stretched torus": hs.datasets.stretched_torus(N_EXACT, random_state=0),
        "digits (1,797)": hs.datasets.digits()[0],
    }
    for name, X in sets.items():
        exact = hs.heat_kernel(X, n_neighbors=None)
        epsilon = exact.bandwidth
        graphs = [hs.heat_kernel(X, n_neighbors=k, bandwidth=epsilon) for k in NEIGHBORS]
        graphs.append(hs.heat_kernel(X, cutoff=1e-6, bandwidth=epsilon))
        rng = np.random.default_rng(0)
        far = rng.integers(len(X), size=(N_PAIRS, 2))
        some = rng.choice(len(X), N_PAIRS, replace=False)
        nearest = np.argsort(np.square(X[some][:, None, :20] - X[None, :, :20]).sum(axis=2), axis=1)[:, 1:50]
        near = np.column_stack([some, nearest[np.arange(N_PAIRS), rng.integers(49, size=N_PAIRS)]])
        for kind, pairs in (("random", far[far[:, 0] != far[:, 1]]), ("near", near)):
            truth = hs.diffusion_distances(exact, POWER, pairs)
            cells = []
            for graph in graphs:
                got = hs.diffusion_distances(graph, POWER, pairs)
                error, rank = np.median(np.abs(got / truth - 1)), spearmanr(got, truth).statistic
                cells.append(f"{error:.3f}, {rank:.3f}")
            lines.append(f"| {name} | {kind} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


FIT = """
import resource, sys, time
import numpy as np
import heatsketch as hs
from benchmarks.scale.data import swiss_roll, tree
n, data, options = int(sys.argv[1]), sys.argv[2], eval(sys.argv[3])
X = {"swiss roll": swiss_roll, "tree": tree}[data](n)
model = hs.GaussianProcessEmbedding(10, power=16, random_state=0, **options)
warm = hs.GaussianProcessEmbedding(2, n_neighbors=16).fit(X[:5000])  # compiles, and imports what is needed
hs.operators.TiledGaussianOperator(X[:500], 1.0, dtype="float32") @ np.ones((500, 10), dtype="float32")
def now(): return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
foretold = hs.estimate(X, n_components=10, power=16, **options)
before, start = now(), time.perf_counter()
model.fit(X)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
print(foretold.held, foretold.memory, peak, foretold.seconds, seconds, sep="|")
"""


def cost_table() -> str:
    """Memory and time foretold by `estimate`, and measured in a fresh process."""
    lines = [
        "| data | points | held as | memory foretold | measured | seconds foretold | measured |",
        "|---|---|---|---|---|---|---|",
    ]
    for n, data, options in FITS:
        command = [sys.executable, "-c", FIT, str(n), data, repr(options)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment).stdout
        held, memory, peak, foretold, seconds = out.strip().split("|")
        lines.append(
            f"| {data} | {n:,} | {held} | {float(memory) / 1e6:.0f} MB | {float(peak) / 1e6:.0f} MB | "
            f"{float(foretold):.1f} | {float(seconds):.1f} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


def put(page: str, name: str, table: str) -> str:
    """The page with the table between its markers."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> None:
    """Measure and write."""
    start = time.perf_counter()
    page = PAGE.read_text()
    page = put(page, "costs", cost_table())
    page = put(page, "errors", error_table())
    PAGE.write_text(page)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
