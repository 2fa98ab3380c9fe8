"""Estimators from points to coordinates: a million points, parts of a fit, and the CPU beside the GPU."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

import heatsketch as hs

from .bench import Bench, Row, bandwidth_of, timing
from .parts import Parts

__all__ = ["diffusion_maps", "fit", "heat_sketch", "neighbours", "same", "side_by_side"]

_ROUNDS = 3
_CHECKED = 100  # rows whose neighbours are checked
_NEIGHBORS = 32
_COMPONENTS = 10
_PICTURE = 4
_LEAST = 60  # points of a fit that only compiles


def fit(bench: Bench, d: int) -> None:
    """A Gaussian process embedding of all pairs, first in a fresh process, then again, then with its own bandwidth."""
    n, plan = bench.plan.fit, bench.plan
    before, start = time.time() - bench.started, time.time()
    X = bench.points(n, d)
    made = time.time() - start
    about = {"n": n, "d": d, "columns": plan.columns, "power": plan.power}
    given = partial(_estimator, bench, plan.columns, bandwidth=bandwidth_of(d))
    with bench.case(**about, rule="given", run="first") as row:
        row["fit_s"], _ = bench.wall(lambda: given().fit(X))
        row["seconds"] = time.time() - bench.started - made
        row["imports_s"] = before
        row.update(bench.memory())
    with bench.case(**about, rule="given", run="again") as row:
        _whole(bench, given(), X, row)
    with bench.case(**about, rule="neighbor", run="again") as row:
        _whole(bench, _estimator(bench, plan.columns, bandwidth="auto"), X, row)


def _estimator(bench: Bench, k: int, *, bandwidth: float | str, device: str | None = None) -> Any:
    return hs.GaussianProcessEmbedding(
        n_components=k,
        power=bench.plan.power,
        normalization="bistochastic",
        bandwidth=bandwidth,
        n_neighbors=None,
        device=device or bench.name,
        random_state=0,
    )


def _whole(bench: Bench, model: Any, X: Any, row: Row) -> None:
    """A fit with its parts, its memory, and how far the rows of its kernel are from summing up to 1."""
    with Parts(bench) as parts:
        row["seconds"], _ = bench.wall(lambda: model.fit(X))
    row.update(bench.memory() | parts.found(row["seconds"]))
    row.update({"epsilon": float(model.bandwidth_), "scaling_products": int(model.n_iter_)})
    op = model.kernel_.affinity.operator
    row.update({"arithmetic": op.arithmetic, "share": getattr(op._kernel, "share", 1.0)})
    row["row_sums"] = _row_sums(bench, model, X)


def _row_sums(bench: Bench, model: Any, X: Any) -> float:
    """Largest deviation from 1 of sampled row sums of the fitted kernel, in float64."""
    from .products import exact_rows  # noqa: PLC0415

    x, scale = bench.device.tensor(X), bench.device.tensor(model.kernel_.scaling.scale, np.float64)
    rows = bench.sampled(len(x))
    sums = scale[rows] * exact_rows(bench, x, float(model.bandwidth_), rows, scale[:, None])[:, 0]
    return float((sums - 1.0).abs().max())


def diffusion_maps(bench: Bench) -> None:
    """Eigenvectors of all pairs."""
    _all_pairs(bench, partial(hs.DiffusionMaps, n_components=_COMPONENTS))


def heat_sketch(bench: Bench) -> None:
    """The sketch that distorts least, of all pairs."""
    _all_pairs(bench, partial(hs.HeatSketch, n_components=_PICTURE, random_state=0))


def _all_pairs(bench: Bench, kind: Any) -> None:
    n, power = bench.plan.estimators, bench.plan.power
    X = bench.points(n, 3)
    make = partial(kind, power=power, bandwidth=bandwidth_of(3), n_neighbors=None, device=bench.name)
    with bench.case(method=kind.func.__name__, n=n, d=3, components=kind.keywords["n_components"], power=power) as row:
        row["warm_up_s"], _ = bench.wall(lambda: make().fit(X[: max(n // 20, _LEAST)]))
        with Parts(bench) as parts:
            row["seconds"], model = bench.wall(lambda: make().fit(X))
        row.update(bench.memory() | parts.found(row["seconds"]))
        if hasattr(model, "distortion_"):
            row["log_distortion"] = model.distortion_.log


def neighbours(bench: Bench) -> None:
    """A graph of neighbours: the search on the device, and the whole fit."""
    n, power = bench.plan.neighbours, bench.plan.power
    for d in bench.plan.both:
        X = bench.points(n, d)
        options = {"power": power, "n_neighbors": _NEIGHBORS, "device": bench.name, "random_state": 0}
        with bench.case(n=n, d=d, neighbors=_NEIGHBORS, components=_COMPONENTS, power=power) as row:
            small = hs.GaussianProcessEmbedding(_COMPONENTS, **options)
            row["warm_up_s"], _ = bench.wall(lambda small=small, X=X: small.fit(X[: max(n // 20, _LEAST)]))
            model = hs.GaussianProcessEmbedding(_COMPONENTS, **options)
            with Parts(bench) as parts:
                row["seconds"], _ = bench.wall(lambda model=model, X=X: model.fit(X))
            row.update(bench.memory() | parts.found(row["seconds"]))
            affinity = model.kernel_.affinity
            row["search"] = affinity.neighborhoods.index.method
            row["checked_rows"] = min(n, _CHECKED)
            row["recall"] = _recall(bench, affinity._graph, affinity.neighborhoods.index.order, X)


def _recall(bench: Bench, graph: Any, order: Any, X: Any) -> float:
    """Share of the true neighbours of some rows, found in float64, that the graph has, whose vertices are in an order.

    No two points coincide, so that each is a vertex.
    """
    x = bench.device.tensor(X).double()
    rows = bench.sampled(len(x), _CHECKED)
    apart = bench.device.torch.cdist(x[rows], x, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = apart.topk(_NEIGHBORS + 1, dim=1, largest=False).indices.cpu().numpy()
    shares, place = [], np.argsort(order)
    for row, found in zip(rows.tolist(), nearest, strict=True):
        true = found[found != row][:_NEIGHBORS]
        kept = graph.indices[graph.indptr[place[row]] : graph.indptr[place[row] + 1]]
        shares.append(float(np.isin(true, order[kept]).mean()))
    return float(np.mean(shares))


def side_by_side(bench: Bench) -> None:
    """The CPU and the device in turn, on points that both can take all pairs of."""
    n, plan = bench.plan.cpu, bench.plan
    for d in plan.both:
        X = bench.points(n, d)
        with bench.case(n=n, d=d, columns=plan.columns, power=plan.power) as row:
            times: dict[str, list[float]] = {"cpu": [], bench.name: []}
            for turn in range(_ROUNDS + 1):
                for device, found in times.items():
                    model = _estimator(bench, plan.columns, bandwidth=bandwidth_of(d), device=device)
                    few = X if turn else X[: max(n // 10, _LEAST)]  # the first turn compiles
                    found.append(bench.wall(lambda model=model, few=few: model.fit(few))[0])
            for device, name in (("cpu", "cpu"), (bench.name, "device")):
                row[name] = timing(times[device][1:])
            row["ratio"] = row["cpu"]["seconds"] / row["device"]["seconds"]


def same(bench: Bench) -> None:
    """Embeddings by the CPU and by the device: how far apart they are."""
    n, k = bench.plan.same, _COMPONENTS
    for d in bench.plan.both:
        for dtype in ("float32", "float64"):
            for kept in (None, _NEIGHBORS):
                X = bench.points(n, d).astype(dtype)
                with bench.case(n=n, d=d, dtype=dtype, neighbors=kept, components=k, power=bench.plan.power) as row:
                    options = {"power": bench.plan.power, "bandwidth": bandwidth_of(d), "n_neighbors": kept}
                    models = [
                        hs.GaussianProcessEmbedding(k, **options, device=device, random_state=0).fit(X)
                        for device in ("cpu", bench.name)
                    ]
                    # In float32 the squares of small coordinates are none.
                    here, there = (model.embedding_.astype(np.float64) for model in models)
                    row["difference"] = float(np.linalg.norm(here - there) / np.linalg.norm(here))
                    row["recalls"] = [getattr(model.kernel_.affinity, "recall", 1.0) for model in models]
