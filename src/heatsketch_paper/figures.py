"""The paper's figures as declarations: what is drawn, and from which tables.

An experiment is what is computed: one table. A :class:`Figure` is what is drawn, from one table or several; the paper
draws the Klein bottle twice, and so do we, from one computation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from .catalogue import EXPERIMENTS
from .charts import DistortionChart
from .errors import ReproductionError
from .harness.experiment import Experiment
from .methods import BEYOND

__all__ = ["FIGURES", "GROUPS", "Figure", "find_figures", "plan"]


@dataclass(frozen=True)
class Figure:
    """A picture and the tables it is drawn from.

    Attributes
    ----------
    name : str
    group : {"section5", "theory"}
    place : str
        Where it stands in the paper.
    title : str
    caption : str
        What is to be seen, for the page.
    experiments : tuple of str
        Names of the tables.
    kind : str
        How it is drawn: a key of `heatsketch_paper.pictures.DRAWINGS`.
    methods : tuple of str
        Those drawn; the tables may hold more.
    trials : tuple of int
        Those drawn, where single trials are.
    """

    name: str
    group: str
    place: str
    title: str
    caption: str
    experiments: tuple[str, ...]
    kind: str
    methods: tuple[str, ...] = ()
    trials: tuple[int, ...] = ()


_SKETCHED = ("GPS", "GPB", "GPSBS", "GPSBB")

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "circle",
            "section5",
            "Figure 1(a)",
            "Embeddings of the circle",
            "Diffusion maps need two coordinates and are close to isometric; random curves in the plane may cross "
            "themselves.",
            ("circle",),
            "dimensions",
            methods=("DMS", "GPS"),
        ),
        Figure(
            "circle_sample",
            "section5",
            "Figure 1(b)",
            "Gaussian process embeddings of the circle in the plane",
            "The first trial, and the first whose curve crosses itself; colour is the angle.",
            ("circle_sample", "circle_shapes"),
            "plane",
            methods=("GPS",),
            trials=(0, 10),
        ),
        Figure(
            "stretched_torus",
            "section5",
            "Figure 2(a)",
            "Embeddings of the stretched torus",
            "The leading six eigenfunctions of the torus see only the large circle: diffusion maps lose the small one.",
            ("stretched_torus",),
            "dimensions",
            methods=("DMS", "DMB", "GPS", "GPB"),
        ),
        Figure(
            "klein_bottle",
            "section5",
            "Figure 2(b)",
            "Embeddings of the Klein bottle",
            "As on the torus, and more so: within twenty dimensions diffusion maps do not catch up.",
            ("klein_bottle",),
            "dimensions",
            methods=("DMS", "DMB", "GPS", "GPB"),
        ),
        Figure(
            "circle_with_outliers",
            "section5",
            "Figure 3(a)",
            "Embeddings of the circle with two outliers",
            "Each outlier costs diffusion maps one coordinate; Gaussian process embeddings pay little.",
            ("circle_with_outliers", "outlier_crossings"),
            "dimensions",
            methods=("DMS", "DMB", "GPS", "GPB"),
        ),
        Figure(
            "outliers_dms",
            "section5",
            "Figure 3(b)",
            "Diffusion maps of the circle with two outliers",
            "The outliers (triangles) take both coordinates; 198 points fall together.",
            ("outlier_samples", "outlier_shapes"),
            "plane",
            methods=("DMS",),
            trials=(0,),
        ),
        Figure(
            "outliers_removed",
            "section5",
            "Figure 3(c)",
            "The same, outliers removed",
            "What diffusion maps leave of the circle, enlarged.",
            ("outlier_samples", "outlier_shapes"),
            "plane without outliers",
            methods=("DMS",),
            trials=(0,),
        ),
        Figure(
            "outliers_gps",
            "section5",
            "Figure 4",
            "Three Gaussian process embeddings of the circle with two outliers",
            "The first three trials: beside the outliers the circle is still seen as one, if at times a small one.",
            ("outlier_samples", "outlier_shapes"),
            "plane",
            methods=("GPS",),
            trials=(0, 1, 2),
        ),
        Figure(
            "bernoulli_klein_bottle",
            "section5",
            "Figure 5(a)",
            "Gaussian and Bernoulli sketches of the Klein bottle",
            "The same trials as Figure 2(b): signs do as well as normals.",
            ("klein_bottle",),
            "dimensions",
            methods=_SKETCHED,
        ),
        Figure(
            "bernoulli_gaussian_clouds",
            "section5",
            "Figure 5(b)",
            "Gaussian and Bernoulli sketches of Gaussian point clouds",
            "Against the Euclidean distance. The paper does not give the parameters of its clouds; these are ours.",
            ("gaussian_clouds",),
            "dimensions",
            methods=_SKETCHED,
        ),
        Figure(
            "multiscale_torus",
            "section5",
            "Figure 6(a)",
            "The stretched torus in eight dimensions, all scales",
            "Against the Euclidean distance, for powers of the kernel from 2 to 1024.",
            ("multiscale_torus",),
            "powers",
            methods=("DMS", "DMB", "GPS", "GPB"),
        ),
        Figure(
            "multiscale_circle",
            "section5",
            "Figure 6(b)",
            "The circle in the plane, all scales",
            "Against the Euclidean distance, for powers of the kernel from 2 to 256.",
            ("multiscale_circle",),
            "powers",
            methods=("DMS", "DMB", "GPS", "GPB"),
        ),
        Figure(
            "signs_with_outliers",
            "theory",
            "Section 5.3, on data where the paper does not try signs",
            "Gaussian and Bernoulli sketches of the circle with outliers",
            "Two outliers get the same signs, and fall together, with probability 2^-k: signs do worse at small k.",
            ("signs_with_outliers",),
            "dimensions",
            methods=_SKETCHED,
        ),
        Figure(
            "karhunen_loeve",
            "theory",
            "Theorems 2.3 and 3.1",
            "The Karhunen-Loève expansion",
            "Left: a realisation of the process A g on the circle and its partial sums. Right: their mean squared "
            "error, on the sum of the squared eigenvalues left out.",
            ("karhunen_loeve",),
            "karhunen-loeve",
        ),
        Figure(
            "distance_law",
            "theory",
            "Propositions 2.4, 3.2 and 4.1",
            "Unbiased distances and the chi-square law",
            "Left: mean of |y_i - y_j|² / d², pair by pair, with 99% intervals. Right: its distribution for Gaussian "
            "sketches against the chi-square law.",
            ("distance_law",),
            "distance law",
        ),
        Figure(
            "worst_error",
            "theory",
            "Theorems 2.5 and 3.3",
            "The worst error over all pairs falls like 1/√k",
            "Mean worst error of squared distances, beside the bound's shape, diam / √k times the entropy integral "
            "(dashed, with constant 1); the entropy integral is computed on the data.",
            ("worst_error_circle", "worst_error_torus", "worst_error_klein"),
            "worst error",
        ),
        Figure(
            "robustness",
            "theory",
            "Robustness proposition, section 3",
            "Robustness to noise",
            "Relative change of the embedding under noise of growing size (dots: sketched; lines: the law's mean).",
            ("robustness",),
            "robustness",
        ),
        Figure(
            "kernel_columns",
            "theory",
            "Section 1 (Jones, Maggioni, Schul)",
            "Heat kernel columns",
            "Left: a column of the circle's kernel at three powers. Right: two columns as coordinates of a small "
            "neighbourhood of the torus (diamonds: means).",
            ("kernel_columns", "local_coordinates"),
            "kernel columns",
        ),
        Figure(
            "challenge",
            "theory",
            "Section 2.2",
            "The challenge of eigenfunction embeddings",
            "Left: smallest k at which no two points of a regular grid fall together (least dilation above 1e-4 of "
            "the largest), against r. Right: log L as the sample of the torus grows, fastest where the map is no "
            "embedding.",
            ("challenge", "refinement"),
            "challenge",
        ),
        Figure(
            "torus_eigenfunctions",
            "theory",
            "Section 5.1, on DMB and DMS",
            "Which kernel estimates the torus's eigenfunctions better",
            "Mean squared sine of the angles between the leading two, four and six eigenvectors and the true ones, "
            "trial by trial.",
            ("torus_eigenfunctions",),
            "eigenfunctions",
        ),
        Figure(
            "extreme_powers",
            "theory",
            "Section 5.4, first paragraphs",
            "The process at extreme powers",
            "White noise for p near 0, the top eigenvector for large p.",
            ("extreme_powers",),
            "extreme powers",
        ),
        Figure(
            "cost",
            "theory",
            "Section 4.5",
            "Cost against N, k and p",
            "Median seconds of each step on one core, beside the orders that the paper derives.",
            ("cost",),
            "cost",
        ),
    )
}
GROUPS = tuple(dict.fromkeys(figure.group for figure in FIGURES.values()))


def find_figures(names: Iterable[str] = ()) -> list[Figure]:
    """Figures by name or group, in the catalogue's order; all of them without a name."""
    names = list(names)
    known = [*GROUPS, *FIGURES]
    for name in names:
        if name not in known:
            close = [n for n in known if name in n] or get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ReproductionError(
                f"figure {name!r} is not known{hint} Known are the groups and figures: {', '.join(known)}."
            )
    return [f for f in FIGURES.values() if not names or f.name in names or f.group in names]


def plan(figures: Iterable[Figure], *, n_trials: int | None = None, beyond: bool = False) -> list[Experiment]:
    """Experiments that the figures need, each once.

    Parameters
    ----------
    figures : iterable of Figure
    n_trials : int, optional
        Trials of each experiment; its own number by default. Samples that are drawn one by one stay as many as they
        are.
    beyond : bool
        Whether charts also carry the methods that this project adds.
    """
    if n_trials is not None and (not isinstance(n_trials, int) or n_trials < 1):
        raise ReproductionError(
            f"{n_trials!r} trials were asked for; give a whole number of at least 1, or leave it out."
        )
    found: dict[str, Experiment] = {}
    for figure in figures:
        for name in figure.experiments:
            experiment = EXPERIMENTS[name]
            if beyond and isinstance(experiment, DistortionChart):
                experiment = replace(experiment, methods=(*experiment.methods, *BEYOND))
            if n_trials is not None and not experiment.always_as_declared:
                experiment = replace(experiment, n_trials=n_trials)
            found[name] = experiment
    return list(found.values())
