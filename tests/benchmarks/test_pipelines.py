"""Estimators inside scikit-learn's machinery, and the study of what they are worth there."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from benchmarks.pipelines.data import DATA
from benchmarks.pipelines.methods import METHODS, OURS, RAW
from benchmarks.pipelines.page import write_page
from benchmarks.pipelines.trials import PIPELINES
from benchmarks.pipelines.verdicts import LEVEL, differences, judged, scored
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import heatsketch as hs
from heatsketch_paper.store import Store

ESTIMATORS = {
    "GaussianProcessEmbedding": hs.GaussianProcessEmbedding(2, random_state=0),
    "DiffusionMaps": hs.DiffusionMaps(2),
    "HeatSketch": hs.HeatSketch(2, init="spectral", solver_params={"n_rounds": 1}, random_state=0),
}
every = pytest.mark.parametrize("embedding", ESTIMATORS.values(), ids=ESTIMATORS)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return StandardScaler().set_output(transform="pandas").fit_transform(X), y


def _classifier(embedding):
    return Pipeline([("embed", clone(embedding)), ("scale", StandardScaler()), ("name", LogisticRegression())])


class TestPipelines:
    @every
    def test_is_what_its_steps_do_one_after_the_other(self, wine, embedding):
        seen, unseen, labels, _ = train_test_split(*wine, random_state=0)
        pipeline = make_pipeline(PCA(5), clone(embedding), KNeighborsClassifier(1)).fit(seen, labels)
        reduced = PCA(5).fit(seen)
        model = clone(embedding).fit(reduced.transform(seen))
        last = KNeighborsClassifier(1).fit(model.embedding_, labels)
        expected = last.predict(model.transform(reduced.transform(unseen)))
        np.testing.assert_array_equal(pipeline.predict(unseen), expected)

    @every
    def test_parameters_are_reached_by_their_names(self, wine, embedding):
        pipeline = _classifier(embedding).set_params(embed__n_components=3, embed__power=2)
        copied = clone(pipeline)
        assert copied.get_params()["embed__power"] == 2
        assert copied.fit(*wine)[:-1].transform(wine[0]).shape == (178, 3)
        assert not hasattr(pipeline["embed"], "embedding_")
        with pytest.raises(ValueError, match="Invalid parameter 'perplexity'"):
            pipeline.set_params(embed__perplexity=30)

    @every
    def test_scores_of_cross_validation_are_those_of_the_folds(self, wine, embedding):
        X, y = wine
        scores = cross_val_score(_classifier(embedding), X, y, cv=3)
        assert scores.min() > 0.6  # three classes, the largest of them two fifths
        folds = StratifiedKFold(3).split(X, y)
        expected = [_classifier(embedding).fit(X.iloc[a], y.iloc[a]).score(X.iloc[b], y.iloc[b]) for a, b in folds]
        np.testing.assert_allclose(scores, expected)

    def test_precomputed_affinities_are_split_both_ways(self, wine):
        X, y = (np.asarray(part) for part in wine)
        K = np.exp(-np.square(X[:, None] - X[None]).sum(axis=-1) / 10.0)
        direct = make_pipeline(hs.DiffusionMaps(3, bandwidth=10.0, n_neighbors=None), KNeighborsClassifier())
        given = make_pipeline(hs.DiffusionMaps(3, affinity="precomputed"), KNeighborsClassifier())
        expected = cross_val_score(direct, X, y, cv=3)
        np.testing.assert_allclose(cross_val_score(given, K, y, cv=3), expected)


class TestSearch:
    @every
    def test_finds_the_best_of_components_and_powers(self, wine, embedding):
        X, y = wine
        choices = {"embed__n_components": [1, 3], "embed__power": [1, 8]}
        search = GridSearchCV(_classifier(embedding), choices, cv=2).fit(X, y)
        table = pd.DataFrame(search.cv_results_)
        best = _classifier(embedding).set_params(**search.best_params_)
        assert search.best_score_ == table["mean_test_score"].max()
        np.testing.assert_allclose(cross_val_score(best, X, y, cv=2).mean(), search.best_score_)
        assert table["mean_test_score"].nunique() > 1
        assert search.best_estimator_["embed"].n_components_ == search.best_params_["embed__n_components"]

    def test_in_parallel_and_with_a_cache(self, wine, tmp_path):
        X, y = wine
        choices = {"embed__power": [2, "auto"], "name__C": [0.1, 1.0, 10.0]}
        plain = _classifier(hs.GaussianProcessEmbedding(4, random_state=0))
        cached = clone(plain).set_params(memory=joblib.Memory(tmp_path, verbose=0))
        one, two = (GridSearchCV(p, choices, cv=2, n_jobs=n).fit(X, y) for p, n in ((plain, 1), (cached, 2)))
        np.testing.assert_allclose(two.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"])
        assert two.best_params_ == one.best_params_
        kept = list(tmp_path.rglob("output.pkl"))
        # two powers, two folds and the final fit: the embedding and its scaling, not once more for each C
        assert 0 < len(kept) <= 2 * (2 * 2 + 1)

    def test_a_fit_that_fails_says_why(self, wine):
        search = GridSearchCV(_classifier(hs.DiffusionMaps(2)), {"embed__n_components": [10**4]}, error_score="raise")
        with pytest.raises(ValueError, match=r"10000 eigenvectors .* ask for between 1 and"):
            search.fit(*wine)


class TestUnions:
    @every
    def test_side_by_side(self, wine, embedding):
        X, _ = wine
        union = FeatureUnion([("linear", PCA(2)), ("heat", clone(embedding))]).fit(X)
        expected = np.hstack([PCA(2).fit_transform(X), clone(embedding).fit(X).transform(X)])
        np.testing.assert_allclose(np.abs(union.transform(X)), np.abs(expected), atol=1e-12)
        assert [name.partition("__")[0] for name in union.get_feature_names_out()] == ["linear"] * 2 + ["heat"] * 2

    @every
    def test_column_by_column(self, wine, embedding):
        X, _ = wine
        chosen = ["alcohol", "ash", "hue", "proline"]
        columns = ColumnTransformer([("heat", clone(embedding), chosen)], remainder="passthrough").fit(X)
        out = columns.transform(X)
        assert out.shape == (178, 2 + 13 - 4)
        np.testing.assert_allclose(out[:, :2], clone(embedding).fit(X[chosen]).transform(X[chosen]))
        with pytest.raises(ValueError, match="columns are missing"):
            columns.transform(X.drop(columns="hue"))


class TestFrames:
    @every
    @pytest.mark.parametrize(("kind", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
    def test_names_and_rows_go_through(self, wine, embedding, kind, frame):
        X, y = wine
        X = X.sample(frac=1.0, random_state=0)
        pipeline = make_pipeline(StandardScaler(), clone(embedding)).set_output(transform=kind)
        out = pipeline.fit_transform(X, y)
        assert isinstance(out, frame)
        assert list(out.columns) == [f"{type(embedding).__name__.lower()}{i}" for i in range(2)]
        assert list(pipeline.get_feature_names_out()) == list(out.columns)
        if kind == "pandas":
            assert out.index.equals(X.index)
        plain = make_pipeline(StandardScaler(), clone(embedding)).fit_transform(X)
        np.testing.assert_allclose(out.to_numpy(), plain)

    def test_a_search_over_frames(self, wine):
        X, y = wine
        chosen = ColumnTransformer(
            [("heat", hs.DiffusionMaps(2), list(X.columns[:6])), ("rest", "passthrough", ["hue"])]
        )
        pipeline = make_pipeline(chosen, KNeighborsClassifier()).set_output(transform="pandas")
        search = GridSearchCV(pipeline, {"columntransformer__heat__n_components": [2, 4]}, cv=2).fit(X, y)
        assert list(search.best_estimator_[:-1].transform(X[:3]).columns)[-1] == "rest__hue"


STUDY = Path(__file__).parents[2] / "docs" / "pipelines"
QUICK = ("PCA", "DiffusionMaps, 15 neighbours")


class TestTrials:
    def test_labels_help_and_are_told_to_classifiers_alone(self):
        few = replace(PIPELINES["iris"], n_components=(2,), methods=(*QUICK, "SpectralEmbedding"))
        table = pd.DataFrame(few.trial(0)).set_index("method")
        assert list(table.index) == [RAW, *few.methods]
        columns = [c for c in table if c != "k"]
        known = table[columns].drop(index="SpectralEmbedding")
        assert known.to_numpy().min() > -0.1
        assert known.to_numpy().max() <= 1
        assert (table.loc[["PCA", RAW], "nearest_10"] > table.loc[["PCA", RAW], "nearest_2"]).all()
        unseen = [c for c in columns if c.endswith("unseen")]
        assert table.loc["SpectralEmbedding", unseen].isna().all()  # it cannot place them

    def test_no_label_no_gain(self, monkeypatch):
        X, y = load_wine(return_X_y=True)
        shuffled = np.random.default_rng(0).permutation(y)
        monkeypatch.setitem(DATA, "wine", lambda: (X, shuffled))
        row = replace(PIPELINES["wine"], n_components=(2,), methods=("PCA",)).trial(0)[1]
        assert row["nearest_10_unseen"] == pytest.approx(1 / 3, abs=0.15)
        assert row["kmeans"] == pytest.approx(0, abs=0.05)


class TestDifferences:
    def test_interval_of_paired_differences(self):
        rng = np.random.default_rng(0)
        base = rng.normal(size=9)
        rows = [
            {"trial": t, "method": method, "k": 2, "kmeans": base[t] + shift + 0.1 * rng.normal(), "hdbscan": 0.0}
            | {"nearest_2": 0.5, "logistic_2": 0.7, "nearest_2_unseen": 0.2, "logistic_2_unseen": 0.4}
            for method, shift in ((OURS, 1.0), ("PCA", 0.0))
            for t in range(9)
        ]
        scores = scored(pd.DataFrame(rows))
        np.testing.assert_allclose(scores[["labels", "unseen"]], [[0.6, 0.3]] * 18)
        found = differences(scores, "PCA", "kmeans")[2]
        expected = stats.ttest_rel(scores.loc[(2, OURS), "kmeans"], scores.loc[(2, "PCA"), "kmeans"])
        low, high = expected.confidence_interval(LEVEL)
        assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx((low, high))
        assert found.better
        assert not found.worse
        assert differences(scores, "UMAP", "kmeans") == {}


@pytest.fixture(scope="module")
def tables():
    store = Store(STUDY)
    return {name: store.read(name) for name in store.names}


class TestCommitted:
    def test_everything_is_there(self, tables):
        assert set(tables) == {experiment.name for experiment in PIPELINES.values()}
        for experiment in PIPELINES.values():
            table = tables[experiment.name]
            assert table["trial"].nunique() == experiment.n_trials
            assert set(table["method"]) == {RAW, *METHODS}

    def test_a_trial_comes_out_as_committed(self, tables):
        experiment = replace(PIPELINES["iris"], methods=QUICK, n_components=(2, 10))
        found = pd.DataFrame(experiment.trial(3)).set_index(["k", "method"])
        kept = tables[experiment.name].query("trial == 3").set_index(["k", "method"]).loc[found.index, found.columns]
        # A point or two may be on another side of a border, as on ARM, and a few with other versions of scikit-learn.
        off = np.abs(found - kept).to_numpy()
        assert np.mean(off <= 0.03) > 0.95
        assert off.max() < 0.1

    def test_the_page_is_made_from_the_tables(self, tables, tmp_path):
        shutil.copytree(STUDY, tmp_path / "study")
        (tmp_path / "study" / "index.md").unlink()
        page = write_page(tmp_path / "study").read_text()
        assert page == (STUDY / "index.md").read_text()
        for verdict in judged(tables):
            line = f"| {verdict.promise} | {verdict.measured} | **{'kept' if verdict.kept else 'not kept'}** |"
            assert line in page

    def test_the_guide_tells_the_differences_of_the_page(self):
        guide, page = ((STUDY.parent / name).read_text() for name in ("guide/pipelines.md", "pipelines/index.md"))
        rows = [line for line in guide.splitlines() if line.startswith("|") and "---" not in line]
        assert len(rows) > 4
        assert all(row in page for row in rows)
