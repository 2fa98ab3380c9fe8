"""The embeddings that are compared, each in the settings that its makers advise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from sklearn.decomposition import PCA
from sklearn.manifold import SpectralEmbedding

import heatsketch as hs

__all__ = ["METHODS", "OURS", "RAW", "RIVALS"]

# What UMAP looks at by default: fifteen neighbours, and a scale for each point.
_GRAPH: dict[str, Any] = {"n_neighbors": 15, "bandwidth": "self-tuning", "power": "entropy"}


def _umap(k: int, seed: int, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # that TensorFlow is not there
        from umap import UMAP  # noqa: PLC0415

    return UMAP(n_components=k, random_state=seed, n_jobs=1, **settings)


def _heat_sketch(k: int, seed: int) -> Any:
    return hs.HeatSketch(k, objective="log-stress", random_state=seed, **_GRAPH)


RAW = "all features"
OURS = "HeatSketch, 15 neighbours"
METHODS: dict[str, Callable[[int, int], Any]] = {
    "PCA": lambda k, seed: PCA(k, random_state=seed),
    "SpectralEmbedding": lambda k, seed: SpectralEmbedding(k, random_state=seed),
    "SpectralEmbedding, 15 neighbours": lambda k, seed: SpectralEmbedding(k, n_neighbors=15, random_state=seed),
    "UMAP": _umap,
    "UMAP, for clusters": lambda k, seed: _umap(k, seed, n_neighbors=30, min_dist=0.0),
    "DiffusionMaps, auto": lambda k, _: hs.DiffusionMaps(k, power="auto"),
    "DiffusionMaps, 15 neighbours": lambda k, _: hs.DiffusionMaps(k, **_GRAPH),
    "GaussianProcessEmbedding, 15 neighbours": lambda k, seed: hs.GaussianProcessEmbedding(
        k, random_state=seed, **_GRAPH
    ),
    "HeatSketch, auto": lambda k, seed: hs.HeatSketch(k, power="auto", random_state=seed),
    OURS: _heat_sketch,
}
RIVALS = tuple(name for name in METHODS if name != OURS)
