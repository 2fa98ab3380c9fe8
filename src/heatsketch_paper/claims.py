"""The paper's statements, in our words, and what the tables say about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .cost import ORDERS, power_of
from .harness.evidence import HUGE, LARGE, NOTICEABLE, Verdict, above, below, by_trial, gap, log_L
from .judges import (
    CHARTS,
    about_three,
    alike,
    catching_up,
    chi_square,
    coefficients,
    columns,
    concentrated,
    cost_order,
    crossing,
    curves,
    dudley,
    eigenfunctions,
    equally,
    injective,
    less_change,
    more_extreme,
    nearly,
    nearly_meets,
    noisy,
    normalisations,
    not_injective,
    rate,
    ratios,
    refined,
    scales,
    signs_cost_little,
    signs_gain,
    sketch_variance,
    steps,
    tail,
    variance,
    wasted,
)

__all__ = ["CLAIMS", "Claim", "judge_claims"]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and the test that decides it.

    Attributes
    ----------
    name : str
    place : str
        Where the sentence stands.
    statement : str
        In our words.
    test : str
        Statistic and criterion.
    tables : tuple of str
        Experiments whose tables `judge` takes, in this order.
    judge : callable
    note : str
        Errata, silences of the text, and what else a reader should know.
    """

    name: str
    place: str
    statement: str
    test: str
    tables: tuple[str, ...]
    judge: Callable[..., Verdict]
    note: str = ""


_CIRCLE, _TORUS, _KLEIN = range(2, 9), range(2, 13), range(3, 21)

MANIFOLDS: tuple[Claim, ...] = (
    *(
        Claim(
            f"normalisations_alike_{name}",
            "5, before 5.1",
            f"In most experiments the two normalisations lead to very similar results: {what}.",
            "Mean difference S - B below one error bar (or 0.1, if that is more) in more than half of the settings, a "
            "setting being a data set, a family of methods and a k or p; each judged by itself.",
            CHARTS,
            normalisations(families),
        )
        for name, what, families in (("sketches", "sketches", ("GP", "GPSB")), ("maps", "diffusion maps", ("DM",)))
    ),
    Claim(
        "far_points_circle",
        "5, before 5.1; Figure 1(b)",
        "Where a random curve in the plane crosses itself, L is large because two points that are far apart are sent "
        "close.",
        "Among curves that cross themselves: mean share of pairs that are closer than the most contracted one above "
        "1/10.",
        ("circle_shapes",),
        lambda t: above(
            {"GPS": t.loc[(t["method"] == "GPS") & (t["crossings"] > 0), "contracted"].to_numpy()}, NOTICEABLE
        ),
    ),
    *(
        Claim(
            f"far_points_{name}",
            f"5, before 5.1; Figure {figure}",
            f"{what}: L is large because two points that are far apart are sent close to each other.",
            "Mean share of pairs that are closer than the most contracted one above 1/10, for DMS at small k.",
            (name,),
            lambda t, ks=ks: above({f"k = {k}": by_trial(t, "contracted", method="DMS", k=k) for k in ks}, NOTICEABLE),
        )
        for name, figure, what, ks in (
            ("stretched_torus", "2(a)", "Diffusion maps of the torus", range(2, 7)),
            ("klein_bottle", "2(b)", "Diffusion maps of the Klein bottle", range(3, 7)),
        )
    ),
    Claim(
        "circle_dm_better",
        "5.1, circle; Figure 1(a)",
        "On the circle diffusion maps approximate the diffusion distance significantly better than GPS.",
        "Mean log L of GPS less DMS above 0 at every k = 2 to 8.",
        ("circle",),
        lambda t: above(gap(t, "GPS", "DMS", _CIRCLE)),
    ),
    Claim(
        "circle_two_eigenfunctions",
        "5.1, circle",
        "Two eigenfunctions are enough to recover the basic structure of the circle.",
        "Mean log L of DMS at k = 2 below log 2.",
        ("circle",),
        lambda t: below({"DMS, k = 2": log_L(t, "DMS", 2)}, float(np.log(2.0))),
    ),
    Claim(
        "circle_more_eigenfunctions",
        "5.1, circle",
        "More eigenfunctions are needed to obtain the diffusion distance in full.",
        "Mean log L of DMS at k = 2 less that at k = 8 above 0.",
        ("circle",),
        lambda t: above({"DMS, k = 2 less k = 8": log_L(t, "DMS", 2) - log_L(t, "DMS", 8)}),
    ),
    Claim(
        "plane_curves_cross",
        "5.1, circle; Figure 1(b)",
        "A random curve in the plane may cross itself, which makes L very large.",
        "Share of curves that cross themselves above 1/10; mean log L of these above log 10.",
        ("circle_shapes",),
        curves,
    ),
    Claim(
        "plane_not_effective",
        "5.1, circle",
        "Gaussian process embeddings are not effective in the plane.",
        "Mean log L of GPS at k = 2 above log 10.",
        ("circle",),
        lambda t: above({"GPS, k = 2": log_L(t, "GPS", 2)}, LARGE),
    ),
    Claim(
        "space_curves_need_not_cross",
        "5.1, circle",
        "A random curve in three dimensions need not cross itself.",
        "Mean log L of GPS at k = 3 below log 10.",
        ("circle",),
        lambda t: below({"GPS, k = 3": log_L(t, "GPS", 3)}, LARGE),
    ),
    Claim(
        "circle_no_optimisation",
        "5.1, circle",
        "In higher dimensions Gaussian process embeddings still lack the optimisation of diffusion maps.",
        "Mean log L of GPS less DMS above 0 at every k = 3 to 8.",
        ("circle",),
        lambda t: above(gap(t, "GPS", "DMS", range(3, 9))),
    ),
    Claim(
        "circle_about_three",
        "5.1, circle",
        "In higher dimensions L is about 3.",
        "Mean log L of GPS between log 2 and log 4 at every k = 4 to 8.",
        ("circle",),
        about_three,
    ),
    Claim(
        "torus_dm_struggles",
        "5.1, torus; Figure 2(a)",
        "Diffusion maps struggle significantly for k up to 7.",
        "Mean log L of DMS and of DMB above log 20 at every k = 2 to 7.",
        ("stretched_torus",),
        lambda t: above({f"{m}, k = {k}": log_L(t, m, k) for m in ("DMS", "DMB") for k in range(2, 8)}, HUGE),
    ),
    Claim(
        "torus_plane_equal",
        "5.1, torus",
        "The torus does not embed in the plane, and there all methods struggle somewhat equally.",
        "Mean log L of each of DMS, DMB, GPS, GPB within 0.8 and 1.25 of their average, and above log 20.",
        ("stretched_torus",),
        equally,
    ),
    Claim(
        "torus_gp_better",
        "5.1, torus",
        "From k = 3 on Gaussian process embeddings are better than diffusion maps.",
        "Mean log L of DMS less GPS, and of DMB less GPB, above 0 at every k = 3 to 12.",
        ("stretched_torus",),
        lambda t: above(gap(t, "DMS", "GPS", range(3, 13)) | gap(t, "DMB", "GPB", range(3, 13))),
    ),
    Claim(
        "torus_stronger_from_three",
        "5.1, torus",
        "From k = 3 on they stand out more strongly than at k = 2.",
        "Gap DMS - GPS at k = 3, 4, 5 less that at k = 2 above 0.",
        ("stretched_torus",),
        lambda t: above(
            {
                f"k = {k}": next(iter(gap(t, "DMS", "GPS", [k]).values())) - log_L(t, "DMS", 2) + log_L(t, "GPS", 2)
                for k in (3, 4, 5)
            }
        ),
    ),
    Claim(
        "torus_dm_catches_up",
        "5.1, torus",
        "Diffusion maps catch up in higher dimensions.",
        "Gap DMS - GPS, mean of k = 4 to 7 less that at k = 12, above 0.",
        ("stretched_torus",),
        lambda t: catching_up(t, 12),
    ),
    Claim(
        "torus_dmb_worse",
        "5.1, torus",
        "Diffusion maps fare worse with the bistochastic kernel than with the symmetric one.",
        "Mean log L of DMB less DMS above 0 at every k = 2 to 12.",
        ("stretched_torus",),
        lambda t: above(gap(t, "DMB", "DMS", _TORUS)),
    ),
    Claim(
        "klein_gp_better",
        "5.1, Klein bottle; Figure 2(b)",
        "On the Klein bottle the same happens: Gaussian process embeddings are better.",
        "Mean log L of DMS less GPS, and of DMB less GPB, above 0 at every k = 3 to 20.",
        ("klein_bottle",),
        lambda t: above(gap(t, "DMS", "GPS", _KLEIN) | gap(t, "DMB", "GPB", _KLEIN)),
    ),
    Claim(
        "klein_dmb_worse",
        "5.1, Klein bottle",
        "There, too, diffusion maps fare worse with the bistochastic kernel.",
        "Mean log L of DMB less DMS above 0 at every k = 3 to 20.",
        ("klein_bottle",),
        lambda t: above(gap(t, "DMB", "DMS", _KLEIN)),
        "The paper says only that the phenomena are similar.",
    ),
    Claim(
        "klein_dm_catches_up",
        "5.1, Klein bottle",
        "There, too, diffusion maps catch up in higher dimensions.",
        "Gap DMS - GPS, mean of k = 4 to 7 less that at k = 20, above 0.",
        ("klein_bottle",),
        lambda t: catching_up(t, 20),
        "The paper says only that the phenomena are similar, yet more extreme.",
    ),
    Claim(
        "klein_more_extreme",
        "5.1, Klein bottle; Figure 2(b)",
        "There it is more extreme than on the torus.",
        "Gap DMS - GPS, mean over k = 3 to 12: Klein bottle less torus above 0.",
        ("stretched_torus", "klein_bottle"),
        more_extreme,
    ),
)

OUTLIERS: tuple[Claim, ...] = (
    Claim(
        "outliers_gp_better",
        "5.2; Figure 3(a)",
        "With outliers Gaussian process embeddings are significantly better at k = 2 and 3.",
        "Mean log L of DMS less GPS, and of DMB less GPB, above 0 at k = 2 and 3.",
        ("circle_with_outliers",),
        lambda t: above(gap(t, "DMS", "GPS", (2, 3)) | gap(t, "DMB", "GPB", (2, 3))),
    ),
    Claim(
        "outliers_dm_better_later",
        "5.2; Figure 3(a)",
        "Diffusion maps surpass them at k = 4 and 5.",
        "Mean log L of GPS less DMS, and of GPB less DMB, above 0 at k = 4 and 5.",
        ("circle_with_outliers",),
        lambda t: above(gap(t, "GPS", "DMS", (4, 5)) | gap(t, "GPB", "DMB", (4, 5))),
    ),
    Claim(
        "outliers_circle_collapses",
        "5.2; Figure 3(b)",
        "Under DMS with k = 2 the outliers stay outliers and the 198 points of the circle gather at the origin.",
        "Mean of (largest distance of a circle point from the origin) / (least distance of an outlier) below 0.1.",
        ("outlier_shapes",),
        concentrated,
    ),
    Claim(
        "outliers_removed_crosses",
        "5.2; Figure 3(c)",
        "With the outliers removed, the image of the circle still crosses itself.",
        "Share of trials in which it does above 1/10.",
        ("outlier_shapes",),
        lambda t: crossing(t, "DMS"),
    ),
    Claim(
        "outliers_removed_structure",
        "5.2; Figure 3(c)",
        "Some of the structure of the circle remains there.",
        "Mean rank correlation between distances on the circle and in its image above 0.",
        ("outlier_shapes",),
        lambda t: above({"rank correlation": by_trial(t, "structure", method="DMS")}),
    ),
    Claim(
        "outliers_removed_scale",
        "5.2; Figure 3(c)",
        "Its scale is out of proportion with the distance of the outliers.",
        "Mean of (reach of the circle's image from its mean) / (least distance of an outlier) below 1/10.",
        ("outlier_shapes",),
        lambda t: below(
            {"reach / distance": by_trial(t, "reach", method="DMS") / by_trial(t, "outlier_distance", method="DMS")},
            0.1,
        ),
    ),
    Claim(
        "outliers_own_eigenvectors",
        "5.2",
        "DMS spends its leading two eigenvectors on telling the outliers from the circle.",
        "Share of each coordinate's squared norm that the two outliers hold above 1/2.",
        ("outlier_shapes",),
        wasted,
    ),
    Claim(
        "outliers_third_eigenvector",
        "5.2; Figure 3(a)",
        "A third eigenvector nearly removes the crossing.",
        "Share of trials in which two points of the circle with a chord above 1/2 come within a twentieth of the "
        "diameter of its whitened image, at k = 3, below 1/10.",
        ("outlier_crossings",),
        nearly_meets,
        "log L stays large at k = 3 all the same, because the circle is small beside the outliers.",
    ),
    Claim(
        "outliers_third_not_enough",
        "5.2; Figure 3(a)",
        "A third eigenvector is not enough to describe the circle in full.",
        "Mean log L of DMS at k = 3 less that at k = 4 above 0.",
        ("circle_with_outliers",),
        lambda t: above({"k = 3 less k = 4": log_L(t, "DMS", 3) - log_L(t, "DMS", 4)}),
    ),
    Claim(
        "outliers_gps_crosses",
        "5.2; Figure 4",
        "GPS with k = 2 does not remove the crossing either.",
        "Share of trials in which the image of the circle crosses itself above 1/10.",
        ("outlier_shapes",),
        lambda t: crossing(t, "GPS"),
    ),
    Claim(
        "outliers_scales_together",
        "5.2; Figure 4",
        "GPS shows distances within the circle and to the outliers at once.",
        "Share of trials in which the circle's image reaches at least a tenth of the outliers' distance above 1/2.",
        ("outlier_shapes",),
        scales,
    ),
)

# Data on which signs replace Gaussians: table, description, note. The paper tries them on the first two.
_OURS = "The paper gives no parameters for its clouds; these are ours."
_SIGNS = (
    ("klein_bottle", "Klein bottle", "5.3; Figure 5(a)", ""),
    ("gaussian_clouds", "Gaussian clouds", "5.3; Figure 5(b)", _OURS),
)
_OTHER_SIGNS = (
    ("circle", "circle", ""),
    ("stretched_torus", "stretched torus", ""),
    (
        "signs_with_outliers",
        "circle with outliers",
        "The kernel rows of two outliers are nearly unit vectors: with k signs each they fall together with "
        "probability 2^-k, with Gaussians never.",
    ),
)


def _signs_cost_little(name: str, what: str, place: str, note: str) -> Claim:
    return Claim(
        f"signs_no_disadvantage_{name}",
        place,
        f"There is no significant disadvantage in replacing Gaussians by signs: {what}.",
        "Mean over k of log L of GPSBS less GPS below 0.1 (10% in L).",
        (name,),
        signs_cost_little,
        note,
    )


def _signs_gain(name: str, what: str, place: str, note: str) -> Claim:
    return Claim(
        f"signs_slight_advantage_{name}",
        place,
        f"With the bistochastic kernel signs have a slight advantage: {what}.",
        "Mean over k of log L of GPB less GPSBB above 0.",
        (name,),
        signs_gain,
        note,
    )


SIGNS: tuple[Claim, ...] = (
    *(
        Claim(
            f"signs_alike_{name}",
            place,
            f"Bernoulli and Gaussian sketches perform alike: {what}.",
            "Mean difference GPS - GPSBS (positive: signs are better) below one error bar, or 0.1, at every k.",
            (name,),
            lambda t: alike(t, "GPS", "GPSBS"),
            note,
        )
        for name, what, place, note in _SIGNS
    ),
    *(_signs_cost_little(*data) for data in _SIGNS),
    *(_signs_gain(*data) for data in _SIGNS),
    *(
        Claim(
            f"signs_hidden_{name}",
            place,
            f"The curve of GPSBB is hidden by that of GPSBS: {what}.",
            "Mean difference below 0.1, which cannot be seen in the chart, at every k.",
            (name,),
            lambda t: alike(t, "GPSBS", "GPSBB", visibly=True),
            note,
        )
        for name, what, place, note in _SIGNS
    ),
)

_CIRCLE_POWERS = [2**i for i in range(1, 9)]

MULTISCALE: tuple[Claim, ...] = (
    Claim(
        "multiscale_low_powers",
        "5.4, torus; Figure 6(a)",
        "At low powers GPS struggles nearly as much as DMS.",
        "Mean log L of GPS above 0.9 times that of DMS at p = 2 and 4.",
        ("multiscale_torus",),
        nearly,
    ),
    Claim(
        "multiscale_middle_powers",
        "5.4, torus; Figure 6(a)",
        "At p = 16 and 32 GPS is a clear improvement.",
        "Mean log L of DMS less GPS above 0 at p = 16 and 32.",
        ("multiscale_torus",),
        lambda t: above(gap(t, "DMS", "GPS", (16, 32), "p")),
    ),
    Claim(
        "multiscale_worsens",
        "5.4, torus; Figure 6(a)",
        "As p increases further, GPS gets progressively worse.",
        "Mean log L of GPS grows from each power to the next, from p = 32 to 1024.",
        ("multiscale_torus",),
        lambda t: above(steps(t, [2**i for i in range(5, 11)])),
    ),
    Claim(
        "multiscale_surpasses",
        "5.4, torus; Figure 6(a)",
        "Eventually its L surpasses that of DMS.",
        "Mean log L of GPS less DMS above 0 at p = 1024.",
        ("multiscale_torus",),
        lambda t: above(gap(t, "GPS", "DMS", (1024,), "p")),
    ),
    Claim(
        "multiscale_circle_similar",
        "5.4, circle; Figure 6(b)",
        "On the circle GPS behaves similarly: best at middle powers.",
        "Mean log L of GPS at p = 2 and at p = 256 less that at p = 16 above 0.",
        ("multiscale_circle",),
        lambda t: above({f"p = {p} less p = 16": log_L(t, "GPS", p, "p") - log_L(t, "GPS", 16, "p") for p in (2, 256)}),
    ),
    Claim(
        "multiscale_circle_dm_better",
        "5.4, circle; Figure 6(b)",
        "There DMS is consistently better than GPS.",
        "Mean log L of GPS less DMS above 0 at every p.",
        ("multiscale_circle",),
        lambda t: above(gap(t, "GPS", "DMS", _CIRCLE_POWERS, "p")),
    ),
)


def _cost(step: str, against: str, order: int) -> Claim:
    steps = {
        "symmetric": "Algorithm 1",
        "bistochastic": "I iterations for Algorithm 2",
        "sketch": "the products A^p G",
        "eigenvectors, classical": "eigenvectors by classical methods",
        "eigenvectors, randomised": "k eigenvectors by randomised methods",
    }
    return Claim(
        f"cost_{step.replace(', ', '_')}_{against}",
        "Section 4.5",
        f"The cost of {steps[step]} grows with {against} no faster than {power_of(against, order)}.",
        f"Exponent of {against} in the seconds measured, over the larger sizes, below {order} + 0.5.",
        ("cost",),
        cost_order(step, against),
        "Times of one machine: caches and small sizes bend the exponents."
        + (" The iterations are those of our accelerated scaling, about a dozen." if step == "bistochastic" else ""),
    )


_WORST = ("worst_error_circle", "worst_error_torus", "worst_error_klein")

THEORY: tuple[Claim, ...] = (
    Claim(
        "expansion_error",
        "Theorem 3.1",
        "The process A g is the sum of its Karhunen-Loève expansion: m terms leave an error whose mean is the sum of "
        "the other eigenvalues squared.",
        "Mean of error / prediction equals 1 for each m, at 99% over all m.",
        ("karhunen_loeve",),
        tail,
    ),
    Claim(
        "expansion_coefficients",
        "Theorem 3.1",
        "Its coefficients are independent standard normals.",
        "First eight coefficients of all trials: Kolmogorov-Smirnov test against N(0, 1), p > .01, and no correlation "
        "beyond what 99% of independent ones reach.",
        ("karhunen_loeve",),
        coefficients,
    ),
    Claim(
        "unbiased",
        "Propositions 3.2 and 4.1",
        "Squared distances in the embedding have the squared diffusion distance as mean, for Gaussians and for signs.",
        "Mean of |y_i - y_j|² / d² equals 1 for each pair and sketch, at 99% over all.",
        ("distance_law",),
        ratios("ratio", 1.0),
        "The third sketch has entries that are four-wise independent only; the paper asks for pairwise.",
    ),
    Claim(
        "unbiased_secants",
        "Propositions 3.2 and 4.1",
        "Inner products of secants are unbiased too.",
        "Mean deviation, as a fraction of the two distances, equals 0 for each triple and sketch, at 99% over all.",
        ("distance_law",),
        ratios("secant", 0.0),
    ),
    Claim(
        "chi_square",
        "Section 3 (from the proof of the robustness proposition)",
        "For a Gaussian sketch k |y_i - y_j|² / d² is chi-square with k degrees of freedom.",
        "Kolmogorov-Smirnov test, one pair from each trial: p > .01.",
        ("distance_law",),
        chi_square,
    ),
    Claim(
        "worst_error_rate",
        "Theorems 2.5 and 3.3",
        "The expected worst error over all pairs falls like 1/√k.",
        "Slope of the log of the mean worst error against log k, k ≥ 32, within 0.05 of -1/2.",
        _WORST,
        rate,
        "The theorems bound it from above only. Below k = 32 the tails of the chi-square law bend it. The corollary "
        "after Bernstein's inequality, on which the proof rests, needs the mean, not the sum.",
    ),
    Claim(
        "dudley_bound",
        "Theorems 2.5 and 3.3",
        "It is bounded by a constant times diam / √k times the entropy integral.",
        "Mean of worst error over that product below 16√2, the constant that the proof carries apart from its unnamed "
        "C, for each k and data set.",
        _WORST,
        dudley,
        "Covering numbers are bounded from both sides by a farthest-point traversal; the smaller entropy integral is "
        "used.",
    ),
    Claim(
        "robustness_mean",
        "Robustness proposition, section 3",
        "With one Gaussian matrix for both, the mean squared change of the embedding is |A - B|_F².",
        "Mean of sketched / exact equals 1 for each kernel, noise and size, at 99% over all.",
        ("robustness",),
        noisy,
    ),
    Claim(
        "robustness_variance",
        "Robustness proposition, section 3",
        "Its variance is (2/k) Σ μ_i⁴, μ_i the eigenvalues of A - B.",
        "Mean of observed over predicted variance equals 1.",
        ("robustness",),
        variance("fourth"),
        "Erratum: the paper prints Σ μ_i²; see the next row.",
    ),
    Claim(
        "robustness_variance_printed",
        "Robustness proposition, section 3, as printed",
        "Its variance is (2/k) |A - B|_F², as printed.",
        "Mean of observed over predicted variance equals 1.",
        ("robustness",),
        variance("exact"),
        "Erratum: from the proposition's own chi-square law it is the previous row's.",
    ),
    Claim(
        "challenge_not_injective",
        "Section 2.2",
        "Diffusion maps of S¹ x rS¹ are not injective for k ≤ 2⌊r⌋.",
        "Smallest dilation below 1e-9 of the largest for all such k and r, on regular grids.",
        ("challenge",),
        not_injective,
        "At k = 2⌊r⌋ + 1 the small circle enters by one function only, which folds it; that the grid's points stay "
        "apart then is a matter of its phase. An embedding takes one more. At r = 5.75 the kernel, whose order of "
        "eigenvalues is not quite the Laplacian's, puts another pair of the large circle first.",
    ),
    Claim(
        "challenge_gp_injective",
        "Section 2.2",
        "Gaussian process embeddings are injective from k = 2d + 1 = 5 on, whatever r.",
        "Smallest dilation above 1e-4 of the largest for k ≥ 5, in every trial.",
        ("challenge",),
        injective,
        "On finitely many points almost every map is injective, so this tells maps that collapse from those that do "
        "not, but not k = 5 from 3 or 4.",
    ),
    Claim(
        "low_powers_white",
        "Section 5.4",
        "At extremely low powers the process is close to white noise.",
        "|A^2p - I|_F / √N below 0.01 at p = 2^-12.",
        ("extreme_powers",),
        lambda t: below({"p = 2^-12": by_trial(t, "from_white", exponent=-12)}, 0.01),
    ),
    Claim(
        "high_powers_top",
        "Section 5.4",
        "At extremely large powers the process is nearly a multiple of the top eigenvector.",
        "Share of the variance that the top eigenvector carries above 0.99 at p = 1024.",
        ("extreme_powers",),
        lambda t: above({"share at p = 1024": by_trial(t, "top", exponent=10)}, 0.99),
    ),
    Claim(
        "kernel_columns",
        "Section 1 (Jones, Maggioni, Schul)",
        "d well-chosen columns of the heat kernel are coordinates of a small neighbourhood.",
        "Mean log L of the best of 200 pairs of columns, within a neighbourhood of the torus, below log 10.",
        ("local_coordinates",),
        columns,
    ),
    *(_cost(step, against, order) for (step, against), order in ORDERS.items()),
)

FURTHER: tuple[Claim, ...] = (
    Claim(
        "bistochastic_at_large_powers",
        "5.4, with the bistochastic kernel, which the paper does not draw",
        "On the circle sketches of the bistochastic kernel do not break down at large powers as those of the symmetric "
        "one do.",
        "Mean log L of GPS less GPB above 0 at p = 64, 128 and 256.",
        ("multiscale_circle",),
        lambda t: above(gap(t, "GPS", "GPB", (64, 128, 256), "p")),
        "The top eigenvector, which large powers leave, is constant there and absent from all distances.",
    ),
    *(
        _signs_cost_little(name, what, "5.3, on data where the paper does not try signs", note)
        for name, what, note in _OTHER_SIGNS
    ),
    *(_signs_gain(name, what, "5.3, where the paper asks for more study", note) for name, what, note in _OTHER_SIGNS),
    Claim(
        "sketch_variance",
        "Section 4.4, where the paper proves the mean only",
        "Squared distances have the relative variance 2/k under Gaussians and (2/k)(1 - Σv⁴/|v|⁴), which is less, "
        "under signs, v being the difference of two kernel rows.",
        "Mean of squared deviation / prediction equals 1 for each pair and sketch, at 99% over all.",
        ("distance_law",),
        sketch_variance,
        "Here the two formulas differ by a few per cent, too little for these trials to tell them apart.",
    ),
    Claim(
        "robustness_bistochastic",
        "Section 3, after the proposition (Landa, Coifman, Kluger)",
        "The bistochastic kernel withstands heteroskedastic noise better than the symmetric one.",
        "Relative change |A - B|_F / |A|_F of symmetric less bistochastic above 0 at every size of noise.",
        ("robustness",),
        less_change("bistochastic", "symmetric"),
        "The paper cites the result for bistochastic kernels and compares with nothing. The gain is small, and with "
        "alpha = 0 the symmetric kernel changes less than either under much noise: see the figure.",
    ),
    Claim(
        "robustness_zero_diagonal",
        "Section 3, after the proposition (Landa, Coifman, Kluger)",
        "With its diagonal set to zero, as in the work cited, the bistochastic kernel withstands it better still.",
        "Relative change of bistochastic less that with zero diagonal above 0 at every size of noise.",
        ("robustness",),
        less_change("bistochastic, zero diagonal", "bistochastic"),
        "The paper's Algorithm 2 keeps the diagonal.",
    ),
    Claim(
        "challenge_refined",
        "Section 2.2",
        "Seen from growing samples: L grows faster where the map of the torus is no embedding.",
        "Growth of log L over the three largest samples, bistochastic kernel: diffusion maps at k = 6 less k = 8, and "
        "Gaussian processes at k = 2 and 3 less k = 8, above 0.",
        ("refinement",),
        refined,
        "Gaussian processes at k = 5 and 8 still grow at these sizes: the limit of L is finite, not small.",
    ),
    *(
        Claim(
            f"dmb_eigenfunctions_{m}",
            "Section 5.1, torus",
            f"The bistochastic kernel estimates the first {2 * m} eigenfunctions of the torus better.",
            "Mean squared sine of the angles to the true eigenfunctions: symmetric less bistochastic above 0.",
            ("torus_eigenfunctions",),
            eigenfunctions(m),
            "The paper offers this as a possible reason for DMB's larger L.",
        )
        for m in (1, 2, 3)
    ),
    Claim(
        "lowest_power_drawn",
        "Section 5.4",
        "At the lowest power of the figure, p = 2, many eigenvalues are close to 1.",
        "Share of the eigenvalues of A^p that exceed 1/2 above one half at p = 2.",
        ("extreme_powers",),
        lambda t: above({"share at p = 2": by_trial(t, "near_one", exponent=1)}, 0.5),
        "The paper says this of extremely low powers, and draws p = 2 and more; that many is more than half is our "
        "reading.",
    ),
)

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "section5": (*MANIFOLDS, *OUTLIERS, *SIGNS, *MULTISCALE),
    "theory": THEORY,
    "further": FURTHER,
}


def judge_claims(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Decide every claim whose tables are there.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        By name of the experiment.

    Returns
    -------
    claims : DataFrame
        A row for each claim: name, group, place, statement, tables, test, trials (the fewest of its tables), measured,
        verdict, note.
    """
    rows = []
    for group, claim in ((group, claim) for group, claims in CLAIMS.items() for claim in claims):
        if not all(name in tables for name in claim.tables):
            continue
        needed = [tables[name] for name in claim.tables]
        verdict = claim.judge(*needed)
        rows.append(
            {
                "name": claim.name,
                "group": group,
                "place": claim.place,
                "statement": claim.statement,
                "tables": " ".join(claim.tables),
                "test": claim.test,
                "trials": min(table["trial"].nunique() for table in needed),
                "measured": verdict.measured,
                "verdict": verdict.word,
                "note": claim.note,
            }
        )
    columns = ["name", "group", "place", "statement", "tables", "test", "trials", "measured", "verdict", "note"]
    return pd.DataFrame(rows, columns=columns)
