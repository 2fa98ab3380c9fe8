"""Values that stay as they are from release to release: ``python tests/golden.py`` writes them to ``golden.json`` anew.

They may change only on purpose: with an entry under "Changed" in CHANGELOG.md which says that embeddings differ from
those of the last release, and why; never as a side effect. `test_golden.py` compares.

- "exact": random words, signs, and what follows from counting, the same on every machine and with every NumPy. They
  come from Philox as we write it out, not from NumPy's generators.
- "rounded": normals and data, which go through logarithms and cosines of the machine: to 1e-13. (The uniform numbers of
  the data sets are of `numpy.random.RandomState`, whose stream is frozen.)
- "computed": bandwidths, scalings, eigenvalues, embeddings and distances, which go through BLAS and LAPACK: to 1e-9 of
  the largest entry. Kernels are scaled to 1e-13, so that where an iteration stops does not matter.
- "optimised": distortions of HeatSketch, whose optimisation turns rounding into another local minimum about as good:
  to a tenth of the logarithm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import heatsketch as hs
from heatsketch.linalg.philox import philox, sample
from heatsketch.linalg.sketch import make_sketch, resolve_seed

FILE = Path(__file__).with_name("golden.json")
TOLERANCES = {"exact": 0.0, "rounded": 1e-13, "computed": 1e-9, "optimised": 0.1}
WHEN = (
    "Written by python tests/golden.py. These values may change only together with an entry under Changed in "
    "CHANGELOG.md which says that embeddings differ from those of the last release."
)
# The paper's data at a smaller size, with a bandwidth and a power that suit it.
DATA = {
    "circle": (0.25, 8),
    "stretched_torus": (0.6, 10),
    "klein_bottle": (4.0, 4),
    "circle_with_outliers": (0.5, 4),
}
N = 200
PAIRS = [[0, 1], [5, 120], [33, 199]]

Values = dict[str, Any]


def exact() -> Values:
    """Random words and signs, and what follows from counting."""
    found: Values = {
        "philox": [word.tolist() for word in philox(([0, 1, 2**32 - 1], 0, [0, 7, 2**32 - 1], 5), 0x0123456789ABCDEF)],
        "sample": sample(1000, 6),
        "seed of RandomState(0)": resolve_seed(np.random.RandomState(0)),
        "components_for": [hs.components_for(0.1), hs.components_for(0.1, 1000)],
    }
    for name in ("rademacher", "rademacher-hash", "columns"):
        found[name] = np.argwhere(make_sketch(name, 2**40 + 3, 50).block([0, 7, 31, 49], np.arange(12)) > 0)
    return found


def rounded() -> Values:
    """Normals and data."""
    gaussian = make_sketch("gaussian", 2**40 + 3, 50)
    found: Values = {"gaussian": gaussian.block([0, 1, 2**33], [0, 1, 2, 1000])}
    return found | {name: getattr(hs.datasets, name)(N, random_state=0)[-2:] for name in DATA}


def computed() -> Values:
    """What estimators make of the data."""
    found: Values = {}
    for name, (epsilon, power) in DATA.items():
        X = getattr(hs.datasets, name)(N, random_state=0)
        rules = [hs.estimate_bandwidth(X, rule) for rule in ("neighbor", "median", "slope")]
        found[f"{name}: bandwidths"] = [rule.epsilon for rule in rules]
        for normalization in ("bistochastic", "symmetric"):
            kind = f"{name}, {normalization}"
            options: dict[str, Any] = {"bandwidth": epsilon, "power": power, "normalization": normalization}
            options |= {"kernel_params": {"tol": 1e-13}}
            model = hs.GaussianProcessEmbedding(4, random_state=7, **options).fit(X)
            maps = hs.DiffusionMaps(2, **options).fit(X)
            found[f"{kind}: scaling"] = model.kernel_.scaling.scale[[0, 99, 199]]
            found[f"{kind}: eigenvalues"] = maps.eigenvalues_
            found[f"{kind}: GaussianProcessEmbedding"] = model.embedding_[[0, 150]]
            found[f"{kind}: DiffusionMaps"] = maps.embedding_[[0, 150]]
            found[f"{kind}: new points"] = model.transform(X[:2] + 0.01)
            found[f"{kind}: distances"] = hs.diffusion_distances(model.kernel_, power, PAIRS)
    X = hs.datasets.stretched_torus(N, random_state=0)
    near = hs.GaussianProcessEmbedding(
        4, n_neighbors=12, n_exact=2, bandwidth=0.6, kernel_params={"tol": 1e-13}, random_state=7
    ).fit(X)
    found["neighbours"] = near.embedding_[[0, 150]]
    found["power"] = [hs.DiffusionMaps(2, power=rule, bandwidth=0.6).fit(X).power_ for rule in ("paths", "entropy")]
    return found


def optimised() -> Values:
    """Distortions of HeatSketch."""
    found: Values = {}
    for name in ("stretched_torus", "circle_with_outliers"):
        epsilon, power = DATA[name]
        X = getattr(hs.datasets, name)(N, random_state=0)
        model = hs.HeatSketch(3, bandwidth=epsilon, power=power, random_state=0, kernel_params={"tol": 1e-13}).fit(X)
        found[name] = [model.distortion_.log]
    return found


def plain(value: Any) -> Any:
    """A value as JSON has it; Python writes floats so that they are read back to the last bit."""
    return np.asarray(value).tolist()


def values() -> dict[str, Values]:
    """All values, by how closely they are kept."""
    made = {"exact": exact(), "rounded": rounded(), "computed": computed(), "optimised": optimised()}
    return {kind: {name: plain(value) for name, value in some.items()} for kind, some in made.items()}


def write() -> None:
    """Write the file anew, a value to a line."""
    kinds = [
        f'  "{kind}": {{\n' + ",\n".join(f"    {json.dumps(n)}: {json.dumps(v)}" for n, v in some.items()) + "\n  }"
        for kind, some in values().items()
    ]
    FILE.write_text(",\n".join([f'{{\n  "when": {json.dumps(WHEN)}', *kinds]) + "\n}\n")


if __name__ == "__main__":
    write()
