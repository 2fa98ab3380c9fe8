"""Common problems of an embedding: findings with a measured figure and a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._utils.array import array_namespace, astype, to_numpy
from .._utils.display import html_table
from .._utils.text import listed
from .._utils.typing import FloatArray
from .._utils.units import units_of
from ..kernel.affinity import GaussianAffinity
from ..kernel.bandwidth import SlopeProfile, slope_profile
from ..kernel.operator import HeatKernel
from ..linalg.filters import FEW, MultiscaleFilter, Power, longest
from ..linalg.lanczos import horizon
from ..linalg.range_finder import leading_directions
from ..neighbors.paths import Paths, shortest_paths
from .density import SpectralDensity, spectral_density

__all__ = ["Diagnosis", "Finding", "Subject", "diagnose"]

# Thresholds. Share of heat that a point keeps in one step, and largest nontrivial eigenvalue: beyond these the kernel
# is nearly the identity, or nearly constant.
_KEPT, _LEAST_EIGENVALUE = 0.8, 0.05
# Components exchange less than this share of their heat during the diffusion time, and this fraction of the exchange
# within them.
_EXCHANGED, _GAP = 0.01, 0.01
# A hub has this many times the median number of neighbours.
_HUB = 10.0
# An outlier has this leverage over the leading directions.
_OWNED = 0.4
# Effective number of points that a point exchanges heat with in a step, itself included: below the first the kernel is
# too narrow; above the second, and above half of all points, it is too wide.
_FEWEST_NEIGHBORS, _MOST_NEIGHBORS = 2.5, 30.0
# Share of the heat of a step that crosses between folds; `shortest_paths` says which points are on different folds.
_LEAK = 0.02
# Distance of a near neighbour relative to a typical point. Noise of 20 dimensions has 0.7 at 1,000 points.
_CONCENTRATED = 0.7
# Effective dimension of a single mode.
_ONE_MODE = 1.5
_RECALL = 0.99
# Components for clusters and features, with which classifiers on many data sets do best.
_USUAL = 10
# Columns of other units dominate if up to this share of them has this share of the squared distances, or any number of
# them has that share; measured on so many rows.
_FEW_COLUMNS, _DOMINATED, _ALL_BUT, _ROWS = 0.25, 0.95, 0.99, 2000
# Columns of the spectral density, up to `FEW` points and for more, and the least and the most products: a trace of d
# equal modes is known to within 2 / sqrt(columns d).
_COLUMNS, _STEPS = (16, 8), (16, 48)
_MOST_DIRECTIONS = 16


@dataclass(frozen=True)
class Finding:
    """A possible problem.

    Attributes
    ----------
    name : str
        Short, for programs: "identity", "constant", "narrow", "wide", "leak", "components", "hub", "outlier", "units",
        "noise", "late", "dimension", "scaling" or "recall".
    figure : float
        The measured value.
    message, remedy : str
        What the problem means for the embedding, and what to do about it.
    harmful : bool
        True if the embedding cannot be trusted; False if the finding is only worth knowing.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(300, random_state=0)
    >>> worst = hs.DiffusionMaps(bandwidth=0.01).fit(X).diagnose()[0]
    >>> print(f"{worst.name}: {worst.figure:.2f}")
    identity: 0.94
    >>> worst.harmful
    True
    >>> print(worst.remedy)
    Use a larger bandwidth (the rule 'neighbor' gives 1.28), or more neighbours (n_neighbors).
    """

    name: str
    figure: float
    message: str
    remedy: str
    harmful: bool = False


class Diagnosis(tuple[Finding, ...]):
    """All findings of an embedding, harmful ones (marked with !) first; empty if nothing looks wrong.

    Examples
    --------
    >>> import heatsketch as hs
    >>> X = hs.datasets.stretched_torus(300, random_state=0)
    >>> hs.DiffusionMaps(bandwidth=0.01).fit(X).diagnose().names
    ('identity', 'components')
    >>> hs.DiffusionMaps(bandwidth="neighbor").fit(X).diagnose()
    Nothing looks wrong.
    """

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the findings."""
        return tuple(finding.name for finding in self)

    def __str__(self) -> str:
        if not self:
            return "Nothing looks wrong."
        return "\n".join(f"{'!' if one.harmful else '-'} {one.message}\n    {one.remedy}" for one in self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self:
            return html_table([("Nothing looks wrong.",)], title="Diagnosis")
        rows = [(one.name, one.message, one.remedy) for one in self]
        marked = [number for number, one in enumerate(self) if one.harmful]
        return html_table(rows, header=("finding", "what it means", "what to do"), title="Diagnosis", marked=marked)


@dataclass(frozen=True)
class Subject:
    """The embedding in question, with measurements that several checks share."""

    kernel: HeatKernel
    power: Power
    n_components: int
    features: Sequence[str] | None = None  # names of the columns of the points
    measured: SpectralDensity | None = None  # of the kernel, if it is known
    fast: HeatKernel | None = None  # the kernel in a lower precision, in which its leading directions are found

    @cached_property
    def density(self) -> SpectralDensity:
        """Spectral density of the kernel."""
        if self.measured is not None:
            return self.measured
        # Traces of S and S^2, and for a single time that of twice its power.
        most = 2.0 if isinstance(self.power, MultiscaleFilter) else 2.0 * self.power
        steps = int(np.clip(np.ceil(np.sqrt(most / horizon(1))), *_STEPS))
        return spectral_density(self.kernel, n_columns=_COLUMNS[self.kernel.shape[0] > FEW], n_steps=steps)

    @cached_property
    def directions(self) -> Any:
        """Leading directions, (N, r)."""
        r = min(max(self.n_components + 2, 8), _MOST_DIRECTIONS, self.kernel.shape[0] - 1)
        return astype(leading_directions(self.fast or self.kernel, r, self.power), np.float64)

    @cached_property
    def eigenvalues(self) -> FloatArray:
        """Of the leading directions, (r,)."""
        Q = self.directions
        products = Q * astype(self.kernel.deflated @ Q, np.float64)
        values: FloatArray = to_numpy(array_namespace(Q).sum(products, axis=0))
        return values

    @cached_property
    def profile(self) -> SlopeProfile | None:
        """Growth of neighbourhoods with the bandwidth; None for a precomputed affinity."""
        return None if self.gaussian is None else slope_profile(self.gaussian.X, self.gaussian.metric)

    @cached_property
    def paths(self) -> Paths | None:
        """Shortest paths between the points; None for a precomputed affinity, or less than three points."""
        return None if self.gaussian is None else shortest_paths(self.gaussian.X, self.gaussian.metric)

    @cached_property
    def dominant(self) -> tuple[list[int], float]:
        """Columns with nearly all of the squared distances, and their share; none if columns have one unit."""
        affinity = self.gaussian
        if affinity is None or not affinity.metric.euclidean:
            return [], 0.0
        n = affinity.X.shape[0]
        rows = affinity.X[np.arange(0, n, -(-n // _ROWS))]
        if issparse(rows) or not units_of(X := to_numpy(rows)).mixed:  # sparse columns are counts, as a rule
            return [], 0.0
        variances = (X.astype(np.float64) / (float(np.abs(X).max()) or 1.0)).var(axis=0)
        order = np.argsort(-variances)
        shares = np.cumsum(variances[order]) / variances.sum()
        few, several = (int(np.searchsorted(shares, share)) + 1 for share in (_DOMINATED, _ALL_BUT))
        varying = np.count_nonzero(variances)
        if few > max(1, int(_FEW_COLUMNS * varying)):
            few = several
        if few == varying:
            return [], 0.0
        return order[:few].tolist(), float(shares[few - 1])

    @property
    def gaussian(self) -> GaussianAffinity | None:
        """The affinity if it is Gaussian."""
        affinity = self.kernel.affinity
        return affinity if isinstance(affinity, GaussianAffinity) else None


def _inside(remedy: str) -> str:
    """A remedy, the beginning of a sentence, as it continues one."""
    return remedy[:1].lower() + remedy[1:]


def diagnose(subject: Subject) -> Diagnosis:
    """Look for common problems of an embedding."""
    checks = (_kernel_findings, _width_findings, _point_findings, _data_findings, _choice_findings)
    found = [finding for check in checks for finding in check(subject)]
    return Diagnosis(sorted(found, key=lambda one: not one.harmful))


def _kernel_findings(subject: Subject) -> Iterator[Finding]:
    """A normalisation that did not converge, and separate parts of the data."""
    scaling = subject.kernel.scaling
    if scaling is not None and not scaling.converged:
        yield Finding(
            "scaling",
            scaling.residual,
            "The normalisation of the kernel did not converge, so distances are not reliable: row sums differ from 1 "
            f"by up to {scaling.residual:.1e}.",
            "Raise max_iter (in kernel_params), or use normalization='symmetric'. If some points are nearly isolated, "
            f"{_inside(subject.kernel.remedy(wider=True))}.",
            harmful=True,
        )
    labels = subject.kernel.components()
    if labels is not None:
        parts = int(labels.max()) + 1
    else:
        # Modes that hardly decay belong to components if a gap follows; the slow modes of a long shape have none.
        lost = 1.0 - np.clip(subject.eigenvalues, 0.0, 1.0) ** longest(subject.power)
        apart = [c for c in range(1, len(lost)) if lost[c - 1] < min(_EXCHANGED, _GAP * lost[c])]
        parts = 1 + max(apart, default=len(lost) if lost[-1] < _EXCHANGED**2 else 0)
    if parts > 1:
        yield Finding(
            "components",
            parts,
            f"The data fall into {parts} parts with hardly any links between them. The embedding shows that the parts "
            "are separate, but the distances between parts mean little.",
            f"If the parts belong together, {_inside(subject.kernel.remedy(wider=True))}. Otherwise embed each part "
            "separately.",
        )


def _width_findings(subject: Subject) -> Iterator[Finding]:
    """A kernel that is too narrow, up to the identity, or too wide, up to a constant."""
    density, n = subject.density, subject.kernel.shape[0]
    kept = (float((density.nodes * density.weights).sum()) + 1.0) / n
    # The rows of a Markov matrix have as many entries of equal size as this, if the sum of all squares is tr S^2.
    shared = n / (float(density.trace(2.0)) + 1.0)
    reached = f"in one diffusion step the heat of a point spreads over {shared:.3g}"
    if kept > _KEPT:
        yield Finding(
            "identity",
            kept,
            "The kernel hardly links any points (it is nearly the identity), so the embedding shows little more than "
            f"noise: in one diffusion step a point keeps {kept:.0%} of its heat, on average.",
            f"{subject.kernel.remedy(wider=True)}.",
            harmful=True,
        )
    elif subject.gaussian is not None and shared < min(_FEWEST_NEIGHBORS, n / 2.0):
        remedy = f"{subject.kernel.remedy(wider=True)}."
        message = f"The kernel is narrow: {reached} points on average, including itself. Groups may fall apart."
        yield Finding("narrow", shared, message, remedy)
    largest = float(np.abs(density.nodes).max())
    if largest < _LEAST_EIGENVALUE:
        yield Finding(
            "constant",
            largest,
            "The kernel links all points almost equally (it is nearly constant), so the embedding shows little more "
            f"than noise: the largest nontrivial eigenvalue is {largest:.2g}.",
            f"{subject.kernel.remedy(wider=False)}.",
            harmful=True,
        )
    elif subject.gaussian is not None and shared > max(n / 2.0, _MOST_NEIGHBORS):
        remedy = f"{subject.kernel.remedy(wider=False)}."
        message = f"The kernel is wide: {reached} of {n} points on average. Small groups may merge."
        yield Finding("wide", shared, message, remedy)


def _point_findings(subject: Subject) -> Iterator[Finding]:
    """Outliers, hubs, and neighbours that the search missed."""
    # Only directions that have not decayed at this time.
    left = np.abs(subject.eigenvalues / np.abs(subject.eigenvalues).max()) ** longest(subject.power) > _EXCHANGED
    directions = subject.directions[:, np.flatnonzero(left)]
    xp = array_namespace(directions)
    leverage = xp.sum(directions * directions, axis=1)
    owners = to_numpy(xp.nonzero(leverage > _OWNED)[0])
    # Single points lie apart in a column of another unit, which is reported instead.
    if 0 < len(owners) < subject.kernel.shape[0] // 4 and not subject.dominant[0]:
        named = ", ".join(map(str, owners[:5])) + (", ..." if len(owners) > 5 else "")
        yield Finding(
            "outlier",
            float(xp.max(leverage)),
            "Outliers take up room in the embedding: leading eigenvectors of the kernel belong largely to single "
            f"points (row {named}).",
            f"Leave these rows out, or {_inside(subject.kernel.remedy(wider=True))}. HeatSketch and "
            "GaussianProcessEmbedding suffer less from outliers than DiffusionMaps.",
        )
    counts = subject.kernel.row_counts()
    if counts is not None:
        ratio = float(counts.max() / np.median(counts))
        if ratio > _HUB:
            yield Finding(
                "hub",
                ratio,
                f"Row {int(counts.argmax())} is a hub: it has {int(counts.max())} neighbours, {ratio:.0f} times the "
                "median. It may draw points together that have little else in common.",
                "Check this row, and leave it out if it carries no information."
                + ("" if subject.gaussian is None else " Fewer neighbours, or another metric, make hubs smaller."),
            )
    recall = getattr(subject.gaussian, "recall", 1.0)
    if recall < _RECALL:
        yield Finding(
            "recall",
            recall,
            f"The neighbour search is approximate, and found only {recall:.1%} of the nearest neighbours.",
            "Reduce the number of features first, for example by PCA, or embed fewer points with every pair "
            "(n_neighbors=None; --n-neighbors all on the command line).",
        )


def _data_findings(subject: Subject) -> Iterator[Finding]:
    """Columns with different units, a kernel that links folds of the data, noise that makes all distances alike."""
    columns, share = subject.dominant
    if columns:
        names = [str(j) if subject.features is None else repr(str(subject.features[j])) for j in columns]
        named = f"column{'s' if len(names) > 1 else ''} {listed(names)}"
        yield Finding(
            "units",
            share,
            f"The columns have very different scales: {named} "
            f"{'make' if len(names) > 1 else 'makes'} up {share:.1%} of the squared distances, and the others hardly "
            "count.",
            "If their units differ, standardise the columns: heatsketch.TableEncoder() or "
            "sklearn.preprocessing.StandardScaler() in a pipeline, --standardize on the command line.",
        )
    kernel, paths = subject.kernel, subject.paths
    if paths is None:
        return
    rows = kernel.symmetric @ kernel.units(paths.sources)
    xp = array_namespace(rows)
    heat = np.abs(to_numpy(rows[paths.rows]).T)  # [sources, sample]
    own = np.diag(heat).sum()
    # The sample holds all of what a point keeps, and a part of what it gives to others.
    given = 1.0 - own / float(xp.sum(xp.abs(rows)))
    leak = given * heat[paths.crossing()].sum() / max(heat.sum() - own, np.finfo(np.float64).tiny)
    if leak > _LEAK:
        yield Finding(
            "leak",
            leak,
            "The kernel links parts of the data that are close in space but far apart along the data, like the layers "
            f"of a roll, so the embedding draws them together: {leak:.0%} of the heat crosses in one diffusion step.",
            f"{subject.kernel.remedy(wider=False)}. The default kernel links near neighbours only.",
            harmful=True,
        )
    near = paths.concentration()
    if near > _CONCENTRATED:
        yield Finding(
            "noise",
            near,
            "Noise in many features dominates the distances, so near and far points hardly differ: the distance to a "
            f"near neighbour is {near:.0%} of a typical distance.",
            "Reduce the number of features first, for example by PCA, use more neighbours (n_neighbors), or set "
            "kernel_params={'diagonal': 'zero'}.",
        )


def _choice_findings(subject: Subject) -> Iterator[Finding]:
    """The diffusion time and the number of components."""
    profile = subject.profile
    left = np.inf
    if not isinstance(subject.power, MultiscaleFilter):
        left = float(subject.density.effective_dimension(subject.power))
    if left < _ONE_MODE and subject.n_components > 1:
        yield Finding(
            "late",
            left,
            f"The diffusion time, power={subject.power:g}, is so long that only the coarsest difference in the data is "
            f"left: the effective dimension is {left:.2f}.",
            "Use a smaller power, or power='multiscale', which keeps all times; scales() compares times.",
            harmful=True,
        )
    if profile is not None and profile.dimension > subject.n_components + 0.5:
        yield Finding(
            "dimension",
            profile.dimension,
            f"The data have about {profile.dimension:.1f} dimensions and the embedding has {subject.n_components}, so "
            "some neighbours in the embedding are false: they are not neighbours in the data.",
            "This is usual for a picture: unsupported_neighbors(), or a report (--report), shows where. For clusters "
            f"and features use more components, such as n_components={max(_USUAL, int(np.ceil(profile.dimension)))}.",
        )
