"""What the page says around its tables."""

from __future__ import annotations

__all__ = ["DENSE", "HOW", "MATCHED", "NEIGHBOURS", "SPARSE", "TARGETS"]

HOW = """
Each embedding runs in a process of its own. The data are made there, the method is imported and fitted once on
other points (a torus), so that imports and compilation are not in the times; *cold* is what that took. Then the
whole way from points to coordinates is timed, neighbours included. *Peak* is resident memory above what was held
just before: the libraries and the points are not in it. Repeats are interleaved: every method once, then again from
the first. Times are medians; the slowest over the fastest repeat says how far to trust them.

*Error* and *rank* compare distances in the embedding with exact diffusion distances at time 16, on sampled pairs
(any two points, and near ones: a point and one of its 100 nearest): the median relative error after the best common
factor, and Spearman's correlation. *Own*: against the diffusion operator that the method itself built, the fair
test of how well it renders what it set out to. *Reference*: all against the bistochastic kernel of heatsketch with
30 neighbours, in float64, which favours ours. Eigenvectors of peers are given the eigenvalues' powers that
diffusion distances need, outside the time. UMAP does not aim at distances, and PHATE aims at others.
""".strip()

TARGETS = """
Ours is heatsketch at its defaults (power 16) unless the line says otherwise. Where a line has several cases the
worst is shown, and a case that was not measured leaves the line open. Speeds end to end count only while the recall
of the neighbours is at least .99.
""".strip()

MATCHED = """
For each peer the fastest variant of ours whose median error is no larger and whose rank correlation is no smaller,
on random pairs, each against its own operator.
""".strip()

DENSE = """
K V for the Gaussian kernel of all pairs, 32 columns, float32; every contender in processes of its own, which take
turns. The limit is GEMM and exp at the speeds above with each distance computed once for its two entries: n^2 d + 64
n^2 flops and n^2 / 2 exps. GFLOP/s are of the plain count, 2 n^2 (d + 32), for everyone. The error is that of 64 rows
against float64. PyTorch's chunk was chosen on other points.
""".strip()

SPARSE = """
The symmetric graph of 30 neighbours with Gaussian weights times 32 columns, float32, as given (the points are in
random order) and with rows and columns reordered by reverse Cuthill-McKee for all; processes take turns here, too. The
limit is its flops at the speed of GEMM. Set-up is what an operator does once, reordering of its own included.
""".strip()

NEIGHBOURS = """
30 nearest others; peers are asked for 31 with the point itself. Recall on 1,000 sampled points against brute force.
Of an index with a choice of effort the whole curve is shown, building included each time.
""".strip()
