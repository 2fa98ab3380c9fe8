"""What HeatSketch promised, and whether the tables bear it out."""

from __future__ import annotations

import pandas as pd

from heatsketch.datasets import PAPER

from ..pages import Tables, Verdict

__all__ = ["cells", "judged"]

# Where the better of the two others has less than this there is little to win.
_WORTH = 0.2
_SHARE, _SHARE_IN_PLANE = 0.4, 0.65
# Seconds that a fit may take, by number of points, and memory at the largest.
_SECONDS = {500: 5.0, 20_000: 60.0, 100_000: 600.0}
_GIB = 4.0


def cells(tables: Tables, column: str) -> pd.DataFrame:
    """Means over the trials for each of the paper's data sets, normalisation and k, and ours over the better."""
    rows = []
    for data in PAPER:
        if data not in tables:
            continue
        groups = tables[data].groupby(["method", "k"])[column]
        mean, error = groups.mean(), groups.sem()
        for letter in "SB":
            for k in sorted(tables[data]["k"].unique()):
                maps, sketch, ours = (float(mean[name + letter, k]) for name in ("DM", "GP", "HS"))
                rows.append(
                    {
                        "data": data,
                        "normalization": letter,
                        "k": int(k),
                        "DM": maps,
                        "GP": sketch,
                        "HS": ours,
                        "error": float(error["HS" + letter, k]),
                        "better": min(maps, sketch),
                        "share": ours / min(maps, sketch),
                    }
                )
    return pd.DataFrame(rows)


def judged(tables: Tables) -> list[Verdict]:
    """All promises that the tables at hand can tell of."""
    found: list[Verdict] = []
    if any(name in tables for name in PAPER):
        found += _on_the_charts(cells(tables, "log_L"), cells(tables, "log_L_unseen"))
    if "deflation" in tables:
        found.append(_deflation(tables["deflation"]))
    found += [_times(tables[f"times_{n}"], n) for n in _SECONDS if f"times_{n}" in tables]
    return found


def _on_the_charts(seen: pd.DataFrame, unseen: pd.DataFrame) -> list[Verdict]:
    excess = (seen["HS"] - seen["better"]) / seen["error"]
    worth = seen[seen["better"] > _WORTH]
    above, plane = worth[worth["k"] >= 3], worth[worth["k"] == 2]
    lost = unseen[unseen["share"] >= 1.0]
    by_data = unseen.groupby("data")[["HS", "DM", "GP"]].mean()
    return [
        Verdict(
            "Mean log L never above the better of diffusion maps and Gaussian process embeddings by more than the "
            "standard error.",
            f"below it in {int((seen['share'] < 1).sum())} of {len(seen)} settings; nearest to it by "
            f"{-excess.max():.1f} standard errors",
            bool((excess <= 1.0).all()),
        ),
        Verdict(
            f"At most {_SHARE} of it for every k of 3 and more where it exceeds {_WORTH}.",
            f"{above['share'].min():.2f} to {above['share'].max():.2f} in {len(above)} settings",
            bool((above["share"] <= _SHARE).all()),
        ),
        Verdict(
            f"At most {_SHARE_IN_PLANE} of it for k = 2 where it exceeds {_WORTH}.",
            f"{plane['share'].min():.2f} to {plane['share'].max():.2f} in {len(plane)} settings",
            bool((plane["share"] <= _SHARE_IN_PLANE).all()),
        ),
        Verdict(
            "On unseen points below both, on each data set, averaged over trials, normalisations and k.",
            "; ".join(
                f"{data} {row['HS']:.2f} (DM {row['DM']:.2f}, GP {row['GP']:.2f})" for data, row in by_data.iterrows()
            ),
            bool((by_data["HS"] < by_data[["DM", "GP"]].min(axis=1)).all()),
        ),
        Verdict(
            "On unseen points below both, in every single setting.",
            f"in {len(unseen) - len(lost)} of {len(unseen)}"
            + "".join(
                f"; not: {row.data}, {row.normalization}, k = {row.k}: {row.HS:.2f} ± {row.error:.2f} (s.e.) against "
                f"{row.better:.2f}"
                for row in lost.itertuples()
            ),
            not len(lost),
        ),
    ]


def _deflation(table: pd.DataFrame) -> Verdict:
    means = table.pivot_table(index=["data", "k"], columns="method", values="error", aggfunc=_rms)
    share = means["auto"] / means["plain"]
    worst = share.idxmax()
    return Verdict(
        'n_exact="auto": error of squared distances never above that of a plain sketch with as many columns.',
        f"{share.min():.1e} to {share.max():.2f} of it in {len(share)} settings (most: {worst[0]}, k = {worst[1]})",
        bool((share <= 1.0 + 1e-9).all()),
    )


def _rms(errors: pd.Series) -> float:
    """Root mean square over trials: the expectation is of squares."""
    return float((errors**2).mean() ** 0.5)


def _times(table: pd.DataFrame, n: int) -> Verdict:
    ours = table[table["method"] == "HeatSketch"]
    seconds, gib = ours["seconds"].max(), ours["gib"].max()
    memory = f" and {_GIB:.0f} GiB" if n == max(_SECONDS) else ""
    kept = seconds <= _SECONDS[n] and (not memory or gib <= _GIB)
    return Verdict(
        f"A fit of {n:,} points within {_SECONDS[n]:.0f} s{memory} on two cores.",
        f"at most {seconds:.1f} s, {gib:.2f} GiB",
        bool(kept),
    )
