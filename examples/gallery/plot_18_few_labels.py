"""
Few labels
==========

Somebody has looked at five images of each digit; the other images have no label. With ``use_labels=True``, ``fit``
takes the labels that are known, and -1 for the others, as scikit-learn's semi-supervised estimators do. HeatSketch then
looks for an embedding that keeps neighbours and separates the known classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import trustworthiness
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import heatsketch as hs

images, digits = hs.datasets.digits()
order = np.random.default_rng(0).permutation(len(images))
images, digits = images[order], digits[order]
seen, unseen = images[:1200], images[1200:]


def some_labels(seed, n_known=5):
    """Labels of a few random images of each digit, -1 for all others."""
    rng, y = np.random.default_rng(seed), np.full(len(seen), -1)
    for digit in range(10):
        y[rng.choice(np.flatnonzero(digits[:1200] == digit), n_known, replace=False)] = digit
    return y


# %%
# Both embeddings, with the known labels as large dots. Colours are the true digits.

y = some_labels(seed=0)
plain = hs.HeatSketch(random_state=0).fit(seen)
labelled = hs.HeatSketch(use_labels=True, random_state=0).fit(seen, y)
figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
for axis, model, title in ((axes[0], plain, "without labels"), (axes[1], labelled, "with 50 labels of 1,200")):
    style, known = {"cmap": "tab10", "vmin": 0, "vmax": 9}, y >= 0
    axis.scatter(*model.embedding_.T, c=digits[:1200], s=6, **style)
    axis.scatter(*model.embedding_[known].T, c=y[known], s=50, edgecolor="black", **style)
    axis.set(title=title, xticks=[], yticks=[], aspect="equal")

# %%
# New images are placed by ``transform``, which needs no labels. How many of them are recognised in the plane from the
# known ones? The mean of five draws of the labels:

classifiers = {
    "nearest known image": KNeighborsClassifier(n_neighbors=1),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
}
shares = {(name, use): [] for name in classifiers for use in ("without", "with")}
for y in map(some_labels, range(5)):
    for use, model in (("without", plain), ("with", hs.HeatSketch(use_labels=True, random_state=0).fit(seen, y))):
        for name, classifier in classifiers.items():
            classifier.fit(model.embedding_[y >= 0], y[y >= 0])
            shares[name, use].append(classifier.score(model.transform(unseen), digits[1200:]))
for (name, use), values in shares.items():
    print(f"{name}, embedding {use} labels: {np.mean(values):.0%}")

# %%
# The labels cost some trustworthiness, as images that look alike are moved apart where labels say so.

for title, model in {"without labels": plain, "with labels": labelled}.items():
    print(f"{title:15} {trustworthiness(seen, model.embedding_, n_neighbors=15):.3f}")
