"""
When more data arrive
=====================

A picture is on the wall, and next week there are more samples. ``transform`` places them without moving anything, but
what they add is not seen: a new cluster falls on an old one. A new fit shows it, and turns the whole picture around.
``extend`` does what is between: it adds the samples, continues from the present embedding, and says how far earlier
samples moved.
"""

import matplotlib.pyplot as plt
import numpy as np

import heatsketch as hs

images, digits = hs.datasets.digits()
order = np.argsort(np.isin(digits, (4, 9)), kind="stable")  # the fours and nines arrive later
images, digits = images[order], digits[order]
n = int((~np.isin(digits, (4, 9))).sum())

# %%
# A first fit knows eight digits. The others, drawn as crosses, are placed, fitted together with the first, or added.

first = hs.HeatSketch(random_state=0).fit(images[:n])
before = first.embedding_.copy()
placed = np.vstack([before, first.transform(images[n:])])
fresh = hs.HeatSketch(random_state=0).fit_transform(images)
first.extend(images[n:])

titles = {"placed by transform": placed, "added by extend": first.embedding_, "fitted again": fresh}
figure, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
for axis, (title, Y) in zip(axes, titles.items(), strict=True):
    style = {"cmap": "tab10", "vmin": 0, "vmax": 9}
    axis.scatter(*Y[:n].T, c=digits[:n], s=5, **style)
    axis.scatter(*Y[n:].T, c=digits[n:], s=18, marker="x", linewidth=0.7, **style)
    axis.set(title=title, xticks=[], yticks=[], aspect="equal")

# %%
# How far did the earlier images move, relative to the size of the picture? And how far in a new fit?


def moved(Y):
    """Distance of each earlier image from its first place, in the unit that fits best, without turning the picture."""
    here, there = Y[:n] - Y[:n].mean(axis=0), before - before.mean(axis=0)
    here = here * np.vdot(here, there) / np.vdot(here, here)
    return np.linalg.norm(here - there, axis=1) / np.sqrt(np.square(there).sum(axis=1).mean())


print(f"added by extend: {np.median(first.moved_):.2f}; fitted again: {np.median(moved(fresh)):.2f}")
