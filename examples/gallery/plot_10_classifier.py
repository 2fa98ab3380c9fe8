"""
In a pipeline, with a classifier
================================

The estimators follow scikit-learn's conventions: they go into pipelines and grid searches, and new points are placed by
``transform``. Here an embedding of handwritten digits feeds a linear classifier.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import heatsketch as hs

images, digits = hs.datasets.digits()
seen, unseen, seen_digits, unseen_digits = train_test_split(images, digits, random_state=0, stratify=digits)

# %%
# Coordinates are in the unit of the diffusion distance; a linear classifier wants them standardised.

pipeline = make_pipeline(
    hs.GaussianProcessEmbedding(n_components=64, random_state=0),
    StandardScaler(),
    LogisticRegression(max_iter=2000),
)

# %%
# The number of components is chosen by cross-validation, as for any other step. The time needs no choice; two single
# ones are tried for comparison.

search = GridSearchCV(
    pipeline,
    {"gaussianprocessembedding__power": [1, 8, "auto"], "gaussianprocessembedding__n_components": [16, 64]},
    cv=3,
).fit(seen, seen_digits)
print({name.partition("__")[2]: value for name, value in search.best_params_.items()})
print(f"{search.score(unseen, unseen_digits):.1%} of unseen digits are named")

# %%
# The same classifier on the 64 pixels themselves, for comparison.

plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(seen, seen_digits)
print(f"{plain.score(unseen, unseen_digits):.1%} without the embedding")

# %%
# Where it goes wrong:

figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
ConfusionMatrixDisplay.from_estimator(search, unseen, unseen_digits, ax=ax, colorbar=False, cmap="Oranges")
