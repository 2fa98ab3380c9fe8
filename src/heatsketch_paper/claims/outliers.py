"""What section 5.2 says, on outliers."""

from __future__ import annotations

from .evidence import Claim, above, below, by_trial, gap, log_L
from .judges import concentrated, crossing, nearly_meets, scales, wasted

__all__ = ["OUTLIERS"]

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
