"""What the paper's theorems, and its remarks about them, predict."""

from __future__ import annotations

from ..cost import ORDERS, order_in_words
from .evidence import Claim, above, below, by_trial
from .judges_theory import (
    chi_square,
    coefficients,
    columns,
    cost_order,
    dudley,
    injective,
    noisy,
    not_injective,
    rate,
    ratios,
    tail,
    variance,
)

__all__ = ["THEORY"]


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
        f"The cost of {steps[step]} grows with {against} no faster than {order_in_words(against, order)}.",
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
