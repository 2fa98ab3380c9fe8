"""What section 5 says its figures show, sentence by sentence."""

from __future__ import annotations

import numpy as np

from .evidence import Claim, above, below, both, by_trial, gap, log_L
from .judges import (
    CHARTS,
    HUGE,
    LARGE,
    NOTICEABLE,
    about_three,
    alike,
    catching_up,
    concentrated,
    crossing,
    curves,
    equally,
    mean_gap,
    more_extreme,
    nearly,
    normalisations,
    scales,
    steps,
    wasted,
)

__all__ = ["SECTION5"]

_CIRCLE, _TORUS, _KLEIN = range(2, 9), range(2, 13), range(3, 21)
_CIRCLE_POWERS = [2**i for i in range(1, 9)]
_OURS = "The paper gives no parameters for its clouds; these are ours."
# Data on which Bernoulli sketches are tried: table, in words, where the paper does so, note.
_SIGNS = (
    ("klein_bottle", "Klein bottle", "5.3; Figure 5(a)", ""),
    ("gaussian_clouds", "Gaussian clouds", "5.3; Figure 5(b)", _OURS),
    ("circle", "circle", "", ""),
    ("stretched_torus", "stretched torus", "", ""),
    (
        "signs_with_outliers",
        "circle with outliers",
        "",
        "The kernel rows of two outliers are nearly unit vectors: with k signs each they fall together with "
        "probability 2^-k, with Gaussians never.",
    ),
)

SECTION5: tuple[Claim, ...] = (
    Claim(
        "normalisations_alike",
        "5, before 5.1",
        "In most experiments the two normalisations lead to very similar results.",
        "Mean difference S - B below the error bar (one standard deviation), for each data set, family and k; more "
        "than half of them.",
        CHARTS,
        normalisations,
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
        "Mean log L of GPS at k = 2 less that at k = 3 above 0.",
        ("circle",),
        lambda t: above({"GPS, k = 2 less k = 3": log_L(t, "GPS", 2) - log_L(t, "GPS", 3)}),
    ),
    Claim(
        "circle_about_three",
        "5.1, circle",
        "In higher dimensions L is about 3.",
        "Mean of log L over k = 4 to 8 between log 2.5 and log 3.5: L is 3 when rounded.",
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
        "Diffusion maps catch up in higher dimensions, when eigenfunctions of the small circle come in.",
        "Gap DMS - GPS, mean of k = 4 to 7 less that at k = 12, above 0.",
        ("stretched_torus",),
        catching_up,
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
        "Mean log L of DMS less GPS above 0 at every k = 3 to 20.",
        ("klein_bottle",),
        lambda t: above(gap(t, "DMS", "GPS", _KLEIN)),
    ),
    Claim(
        "klein_more_extreme",
        "5.1, Klein bottle",
        "There it is more extreme than on the torus.",
        "Gap DMS - GPS, mean over k = 3 to 12: Klein bottle less torus above 0.",
        ("stretched_torus", "klein_bottle"),
        more_extreme,
    ),
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
        "5.2",
        "A third eigenvector nearly removes the crossing, but does not describe the circle in full.",
        "Mean log L of DMS falls from k = 2 to 3, and from 3 to 4.",
        ("circle_with_outliers",),
        lambda t: above({f"k = {k} less k = {k + 1}": log_L(t, "DMS", k) - log_L(t, "DMS", k + 1) for k in (2, 3)}),
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
        "GPS shows distances within the circle and to the outliers at one scale.",
        "(Reach of the circle's image) / (distance of the outliers) is larger than under DMS by more than a factor 10.",
        ("outlier_shapes",),
        scales,
    ),
    Claim(
        "signs_alike_klein",
        "5.3; Figure 5(a)",
        "Bernoulli and Gaussian sketches perform alike on the Klein bottle.",
        "Mean difference GPS - GPSBS below one error bar at every k.",
        ("klein_bottle",),
        lambda t: alike(t, "GPS", "GPSBS", _KLEIN),
    ),
    Claim(
        "signs_alike_clouds",
        "5.3; Figure 5(b)",
        "They perform alike on Gaussian point clouds.",
        "Mean difference GPS - GPSBS below one error bar at every k.",
        ("gaussian_clouds",),
        lambda t: alike(t, "GPS", "GPSBS", range(2, 11)),
        _OURS,
    ),
    *(
        Claim(
            f"signs_no_disadvantage_{name}",
            place or "5.3, on data where the paper does not try signs",
            f"There is no significant disadvantage in replacing Gaussians by signs: {what}.",
            "Mean over k of log L of GPSBS less GPS below 0.1 (10% in L).",
            (name,),
            lambda t: below({"mean over k of GPSBS - GPS": mean_gap(t, "GPSBS", "GPS")}, 0.1),
            note,
        )
        for name, what, place, note in _SIGNS
    ),
    *(
        Claim(
            f"signs_slight_advantage_{name}",
            place or "5.3, where the paper asks for more study",
            f"With the bistochastic kernel signs have a slight advantage: {what}.",
            "Mean over k of log L of GPB less GPSBB above 0.",
            (name,),
            lambda t: above({"mean over k of GPB - GPSBB": mean_gap(t, "GPB", "GPSBB")}),
            note,
        )
        for name, what, place, note in _SIGNS
    ),
    Claim(
        "signs_hidden",
        "5.3; Figure 5",
        "The curve of GPSBB is hidden by that of GPSBS.",
        "Mean difference below one error bar at every k, on both data sets.",
        ("klein_bottle", "gaussian_clouds"),
        lambda a, b: both(alike(a, "GPSBS", "GPSBB", _KLEIN), alike(b, "GPSBS", "GPSBB", range(2, 11))),
        _OURS,
    ),
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
