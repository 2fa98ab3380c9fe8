"""
Comparing two kernels
=====================

The same items measured twice: before and after, with more noise, by another instrument. Both kernels are looked at
through *one* random matrix, so that items whose surroundings did not change keep their place, and the two embeddings can
be laid over each other. Each item's change has a confidence interval. (The robustness proposition of Gilbert and O'Neill.)
"""

import matplotlib.pyplot as plt
import numpy as np

import heatsketch as hs

X = hs.datasets.circle(200, random_state=0)
angle = np.arctan2(X[:, 1], X[:, 0])
moved = X.copy()
changed = np.argsort(abs(angle))[:10]
moved[changed] *= 1.25  # ten points leave the circle

A, B = (hs.heat_kernel(points, bandwidth=0.25) for points in (X, moved))
comparison = hs.compare_kernels(A, B, power=4, n_components=64, random_state=0)
print(comparison)

# %%
# Left both embeddings, with a line from each item to itself. Right the change of each item with its interval: the ten
# stand out, and their neighbours notice.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
comparison.plot(axes[0])
axes[0].set(xticks=[], yticks=[], title="before and after")
order = np.argsort(angle)
place = np.arange(len(X))
axes[1].vlines(place, comparison.item_low[order], comparison.item_high[order], color="0.7")
axes[1].plot(place, comparison.item_distances[order], ".", ms=3)
is_changed = np.isin(order, changed)
axes[1].plot(place[is_changed], comparison.item_distances[order][is_changed], "o", ms=4, color="tab:red", label="moved")
axes[1].set(xlabel="item, by angle", ylabel="change of its kernel row", ylim=(0, None))
axes[1].legend(frameon=False)

# %%
# The squares of the items' changes add up to the square of the global diffusion distance, whose exact value is a Frobenius
# norm. That is affordable here:

A4, B4 = (np.linalg.matrix_power(kernel.toarray(), 4) for kernel in (A, B))
total = comparison.total
print(
    f"estimate {total.distance:.3f}, between {total.low:.3f} and {total.high:.3f}; exact {np.linalg.norm(A4 - B4):.3f}"
)
