"""What section 5 says before its subsections and in 5.1, on manifolds."""

from __future__ import annotations

import numpy as np

from .evidence import HUGE, LARGE, NOTICEABLE, Claim, above, below, by_trial, gap, log_L
from .judges import (
    CHARTS,
    about_three,
    catching_up,
    curves,
    equally,
    more_extreme,
    normalisations,
)

__all__ = ["MANIFOLDS"]

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
