"""Questions beyond the paper: its statements on other data, its possibilities tested, its theorems made sharper."""

from __future__ import annotations

from .evidence import Claim, above, by_trial, gap
from .judges import signs_cost_little, signs_gain
from .judges_theory import eigenfunctions, less_change, refined, sketch_variance

__all__ = ["FURTHER"]

# Data on which the paper does not try signs: table, in words, note.
_SIGNS = (
    ("circle", "circle", ""),
    ("stretched_torus", "stretched torus", ""),
    (
        "signs_with_outliers",
        "circle with outliers",
        "The kernel rows of two outliers are nearly unit vectors: with k signs each they fall together with "
        "probability 2^-k, with Gaussians never.",
    ),
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
        Claim(
            f"signs_no_disadvantage_{name}",
            "5.3, on data where the paper does not try signs",
            f"There is no significant disadvantage in replacing Gaussians by signs: {what}.",
            "Mean over k of log L of GPSBS less GPS below 0.1 (10% in L).",
            (name,),
            signs_cost_little,
            note,
        )
        for name, what, note in _SIGNS
    ),
    *(
        Claim(
            f"signs_slight_advantage_{name}",
            "5.3, where the paper asks for more study",
            f"With the bistochastic kernel signs have a slight advantage: {what}.",
            "Mean over k of log L of GPB less GPSBB above 0.",
            (name,),
            signs_gain,
            note,
        )
        for name, what, note in _SIGNS
    ),
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
