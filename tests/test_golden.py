"""Values that stay the same from release to release; ``python tests/test_golden.py`` writes ``golden.json`` again.

They may change only on purpose, with an entry in CHANGELOG.md that says why embeddings differ from
those of the last release.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heatsketch as hs
from heatsketch.linalg.sketch import make_sketch, philox, resolve_seed, sample

FILE = Path(__file__).with_name("golden.json")
# Relative to the largest entry. "exact" values come from Philox and from counting; "rounded" ones go through logarithms
# and cosines, "computed" ones through BLAS and LAPACK (kernels are scaled to 1e-13, so that it does not matter where an
# iteration stops). The optimisation of HeatSketch turns rounding into another local minimum about as good.
TOLERANCES = {"exact": 0.0, "rounded": 1e-13, "computed": 1e-9, "optimised": 0.1}
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
    """Random words and signs, and values that follow from counting."""
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
    """Bandwidths, scalings, eigenvalues, embeddings and distances."""
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
        4, power=8, n_neighbors=12, n_exact=2, bandwidth=0.6, kernel_params={"tol": 1e-13}, random_state=7
    ).fit(X)
    found["neighbours"] = near.embedding_[[0, 150]]
    h = hs.multiscale(hs.heat_kernel(X, tol=1e-13))
    found["multiscale"] = [h.times, h.weights]
    return found


def optimised() -> Values:
    """Worst distortions of HeatSketch."""
    found: Values = {}
    for name in ("stretched_torus", "circle_with_outliers"):
        epsilon, power = DATA[name]
        X = getattr(hs.datasets, name)(N, random_state=0)
        options = {"bandwidth": epsilon, "power": power, "kernel_params": {"tol": 1e-13}}
        model = hs.HeatSketch(3, objective="bilipschitz", random_state=0, **options).fit(X)
        found[name] = [model.distortion().log]
    return found


KINDS = {"exact": exact, "rounded": rounded, "computed": computed, "optimised": optimised}


@pytest.mark.parametrize("kind", KINDS)
def test_values_match_the_last_release(kind):
    kept, found = json.loads(FILE.read_text())[kind], KINDS[kind]()
    assert found.keys() == kept.keys()
    for name, value in found.items():
        expected = np.array(kept[name])
        np.testing.assert_allclose(
            value, expected, rtol=0.0, atol=TOLERANCES[kind] * np.abs(expected).max(), err_msg=f"{kind}: {name}"
        )


def write() -> None:
    """Write the file, one value in a line. JSON keeps every bit of a float."""
    kinds = []
    for kind, make in KINDS.items():
        lines = [f"    {json.dumps(name)}: {json.dumps(np.asarray(value).tolist())}" for name, value in make().items()]
        kinds.append(f'  "{kind}": {{\n' + ",\n".join(lines) + "\n  }")
    FILE.write_text("{\n" + ",\n".join(kinds) + "\n}\n")


if __name__ == "__main__":
    write()
