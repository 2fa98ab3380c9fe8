"""TableEncoder: laws of its columns, the same result from every kind of frame, and errors that name the cell."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_swiss_roll
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import heatsketch as hs
from heatsketch._utils.units import units_of

pa = pytest.importorskip("pyarrow")
RNG = np.random.default_rng(0)
N = 80
FRAME = pd.DataFrame(
    {
        "income": RNG.normal(4e4, 1e4, N),
        "children": RNG.integers(0, 5, N),
        "member": RNG.random(N) < 0.3,
        "pet": RNG.choice(["cat", "dog", "eel"], N, p=[0.6, 0.3, 0.1]),
        "size": pd.Categorical(RNG.choice(["s", "m", "l"], N)),
        "name": [f"customer {i}" for i in range(N)],
        "day": pd.date_range("2026-01-01", periods=N, freq="36h"),
        "price": [f"{1000 + 7 * i:,}" for i in range(N)],
        "share": [f" {i / 2} %" for i in range(N)],
    }
)
WITH_DATES = hs.TableEncoder(dates="number")


@pytest.mark.parametrize("encoder", [hs.TableEncoder(), hs.TableEncoder(impute="median", standardize=True)], ids=str)
def test_check_estimator(encoder):
    # scikit-learn 1.6 subtracts a mean from integers in the second of these.
    others = {"check_array_api_input", "check_positive_only_tag_during_fit"}
    results = check_estimator(encoder, on_skip=None, expected_failed_checks=dict.fromkeys(others, "see above"))
    assert len(results) > 40
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= others


def test_every_column_counts_alike():
    """A column, numeric or categorical, contributes 2 to the mean squared distance of two random rows."""
    encoder = clone(WITH_DATES).fit(FRAME)
    encoded, names = encoder.transform(FRAME), encoder.get_feature_names_out()
    assert encoder.standardized_
    for column in encoder.columns_:
        block = encoded[:, [name in column.outputs for name in names]]
        mean = 2 * pdist(block, "sqeuclidean").sum() / N**2
        assert mean == pytest.approx(2.0)
    assert [column.name for column in encoder.columns_] == [name for name in FRAME if name != "name"]
    assert list(encoder.left_out_) == ["name"]


def test_units_do_not_matter_when_standardised():
    X = pd.DataFrame(load_wine().data)
    other = X * np.where(np.arange(13) % 2, 1000.0, 0.01)
    model = make_pipeline(hs.TableEncoder(), hs.DiffusionMaps(2))
    np.testing.assert_allclose(np.abs(model.fit_transform(other)), np.abs(model.fit_transform(X)), atol=1e-8)


def test_numbers_in_one_unit_are_unchanged():
    X = load_digits().data[:100]
    encoder = hs.TableEncoder().fit(X)
    np.testing.assert_array_equal(encoder.transform(X), X)
    assert not encoder.standardized_
    assert hs.TableEncoder(standardize=True).fit(X).standardized_


@pytest.mark.parametrize(
    ("X", "mixed"),
    [
        (load_digits().data, False),
        (load_digits().data * np.where(np.arange(64) == 20, 1000.0, 1.0), True),
        (PCA(40).fit_transform(load_digits().data), False),
        (make_swiss_roll(500, random_state=0)[0], False),
        (load_wine().data, True),
        (np.random.default_rng(0).poisson(np.geomspace(0.01, 5.0, 50), size=(300, 50)).astype(float), False),
        (np.column_stack([np.arange(9.0), np.full(9, np.nan)])[:, :1], False),
        (np.ones((5, 3)), False),
    ],
    ids=["digits", "one pixel x 1000", "components", "roll", "wine", "counts", "one column", "constant"],
)
def test_units(X, mixed):
    assert units_of(X).mixed == mixed


@pytest.mark.parametrize(
    "convert",
    [pl.from_pandas, lambda f: pl.from_pandas(f).lazy(), pa.Table.from_pandas],
    ids=["polars", "lazy", "Arrow"],
)
def test_frames_of_other_libraries(convert):
    frame = FRAME.assign(missing=FRAME["income"].where(FRAME["children"] > 0))
    encoder = hs.TableEncoder(dates="number", impute="median")
    wanted = encoder.fit_transform(frame)
    notes = encoder.notes_
    other = convert(frame)
    np.testing.assert_array_equal(encoder.transform(other), wanted)
    np.testing.assert_array_equal(encoder.fit_transform(other), wanted)
    assert encoder.notes_ == notes


def test_text_that_holds_numbers():
    encoder = hs.TableEncoder(standardize=False).fit(FRAME[["price", "share"]])
    np.testing.assert_allclose(encoder.transform(FRAME), np.column_stack([1000 + 7 * np.arange(N), np.arange(N) / 2]))
    codes = pd.DataFrame({"code": ["007", "010", " 3.5 ", ""], "x": [1.0, 2, 3, 4]})
    assert hs.TableEncoder(standardize=False, impute="median").fit_transform(codes)[:, 0].tolist() == [7, 10, 3.5, 7]


def test_roles_of_columns():
    kinds = {column.name: column.kind for column in clone(WITH_DATES).fit(FRAME).columns_}
    assert {name for name, kind in kinds.items() if kind == "category"} == {"pet", "size"}
    assert {name for name, kind in kinds.items() if kind == "date"} == {"day"}
    chosen = hs.TableEncoder(categorical=["children"]).fit(FRAME)
    assert chosen.columns_[1].levels == ("0", "1", "2", "3", "4")
    assert {"pet", "size", "day", "name"} <= chosen.left_out_.keys()
    named = hs.TableEncoder(categorical=["name"]).fit(FRAME)
    assert len(named.get_feature_names_out()) == 5 + N


def test_dates_are_days():
    encoder = hs.TableEncoder(dates="number", standardize=False)
    wanted = 1.5 * np.arange(N)
    text = FRAME["day"].dt.strftime("%Y-%m-%dT%H:%M:%S")
    for days in (FRAME["day"], text, FRAME["day"].dt.tz_localize("UTC")):
        np.testing.assert_allclose(encoder.fit_transform(days.to_frame())[:, 0], wanted)
    whole = pd.DataFrame({"day": FRAME["day"].dt.date, "span": FRAME["day"] - FRAME["day"][3]})
    np.testing.assert_allclose(encoder.fit_transform(whole)[:, 0], np.floor(wanted))
    np.testing.assert_allclose(encoder.transform(whole)[:, 1], wanted)
    assert encoder.transform(whole.assign(day=text)[5:6])[0, 0] == pytest.approx(wanted[5])
    with pytest.raises(ValueError, match="dates"):
        encoder.transform(whole.assign(day=1.0))


def test_missing_values():
    frame = FRAME.assign(income=FRAME["income"].where(FRAME["children"] != 2))
    frame.loc[[4, 9], "pet"] = None
    with pytest.raises(ValueError, match=r"'income'.*impute") as caught:
        hs.TableEncoder().fit(frame)
    assert f"row {frame['income'].isna().argmax()}," in str(caught.value)
    columns = {c.name: c for c in hs.TableEncoder().fit(frame.drop(columns="income")).columns_}
    assert columns["pet"].levels == ("cat", "dog", "eel", None)
    encoder = hs.TableEncoder(impute="median", standardize=False).fit(frame)
    filled = frame.fillna({"income": frame["income"].median(), "pet": frame["pet"].mode()[0]})
    np.testing.assert_array_equal(encoder.transform(frame), encoder.transform(filled))
    new = frame[:3].assign(income=np.nan, pet=None)  # as in the training data, not as in the new rows
    np.testing.assert_array_equal(encoder.transform(new)[:, 0], frame["income"].median())


def test_new_tables_are_matched_by_name():
    encoder = hs.TableEncoder().fit(FRAME)
    wanted = encoder.transform(FRAME[:5])
    shuffled = FRAME[:5][["size", "share", "pet", "member", "price", "children", "income"]].assign(more=1)
    np.testing.assert_array_equal(encoder.transform(shuffled), wanted)
    with pytest.raises(ValueError, match="'pet', 'size'"):
        encoder.transform(FRAME.drop(columns=["pet", "size"]))
    with pytest.raises(ValueError, match="more than once"):
        encoder.transform(pd.concat([FRAME, FRAME], axis=1))
    with pytest.raises(ValueError, match=r"row 1, column 'income' holds 'much'"):
        encoder.transform(FRAME[:3].assign(income=[1.0, "much", 3.0]))


@pytest.mark.parametrize("names", [[3, 7, 5], pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])])
def test_names_of_other_types(names):
    frame = pd.DataFrame(RNG.normal(size=(20, 3)) * [1, 1000, 5], columns=names)
    encoder = hs.TableEncoder().fit(frame)
    np.testing.assert_array_equal(encoder.transform(frame.iloc[:, [2, 0, 1]]), encoder.transform(frame))
    assert encoder.get_feature_names_out()[0] in ("x3", "a 1")
    with pytest.raises(ValueError, match="lacks 3 columns"):
        encoder.transform(frame.to_numpy())


def test_columns_of_spaces_are_empty():
    encoder = hs.TableEncoder(impute="median").fit(FRAME[["income"]].assign(b=" "))
    assert encoder.left_out_ == {"b": "empty"}


def test_codes_with_zeros_are_noted():
    encoder = hs.TableEncoder().fit(FRAME[["income"]].assign(zip=["01234"] * len(FRAME)))
    assert "'01234' as 1234" in " ".join(encoder.notes_)


def test_encoding_is_inverted():
    frame = FRAME.assign(day=pd.to_datetime(["2026-01-31"] * len(FRAME)) + pd.to_timedelta(np.arange(len(FRAME)), "D"))
    encoder = hs.TableEncoder(dates="number").fit(frame)
    back = encoder.inverse_transform(encoder.transform(frame))
    assert list(back.columns) == [column.name for column in encoder.columns_]
    np.testing.assert_allclose(back["income"], frame["income"])
    np.testing.assert_allclose(back["day"] - back["day"][0], np.arange(len(frame)), atol=1e-9)
    categories = [column.name for column in encoder.columns_ if column.kind == "category"]
    assert categories
    for name in categories:
        assert back[name].tolist() == frame[name].astype(object).where(frame[name].notna(), None).tolist()
    assert encoder.inverse_transform(np.zeros((1, encoder.transform(frame).shape[1])))[categories[0]][0] is None
    with pytest.raises(ValueError, match="X has 1 columns"):
        encoder.inverse_transform([[1.0]])


def test_pipeline_leads_back_to_the_table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": 100 + 10 * rng.normal(size=60), "kind": ["a", "b", "c"] * 20})
    pipeline = make_pipeline(hs.TableEncoder(), hs.HeatSketch(4, random_state=0))
    back = pipeline.inverse_transform(pipeline.fit_transform(frame))
    assert (back["kind"] == frame["kind"]).mean() > 0.9
    assert np.corrcoef(back["size"], frame["size"])[0, 1] > 0.9


def test_new_levels_have_no_indicator():
    encoder = hs.TableEncoder().fit(FRAME[["pet", "income"]])
    new = FRAME[:4].assign(pet=["cat", "newt", "owl", "newt"])
    with pytest.warns(UserWarning, match="'newt', 'owl'"):
        encoded = encoder.transform(new)
    assert (encoded[1:, :3] == 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.transform(FRAME)


@pytest.mark.parametrize(
    ("encoder", "frame", "message"),
    [
        (hs.TableEncoder(standardize="always"), FRAME, "standardize"),
        (hs.TableEncoder(categorical="pet"), FRAME, "list"),
        (hs.TableEncoder(categorical=["cat"]), FRAME, "categorical"),
        (hs.TableEncoder(dates="year"), FRAME, "dates"),
        (hs.TableEncoder(impute="mean"), FRAME, "impute"),
        (hs.TableEncoder(), FRAME[["name", "day"]], "nothing to embed"),
        (hs.TableEncoder(), FRAME.assign(income=np.inf), "inf"),
        (hs.TableEncoder(impute="median"), FRAME.assign(income=[np.inf, *FRAME["income"][1:]]), "inf"),
        (hs.TableEncoder(), FRAME.assign(income=["?", *FRAME["income"][1:]]), "row 0, column 'income' holds"),
        (hs.TableEncoder(), pd.concat([FRAME, FRAME], axis=1), "more than once"),
        (hs.TableEncoder(), FRAME.assign(**{"pet=cat": 1.0}), "pet=cat"),
        (hs.TableEncoder(categorical=["dog"]), FRAME, "no column 'dog'"),
        (hs.TableEncoder(), FRAME.assign(income=FRAME["income"] * 1e200), "'income'.*too large to standardise"),
    ],
)
def test_errors(encoder, frame, message):
    with pytest.raises(ValueError, match=message):
        encoder.fit(frame)


def test_notes_say_what_was_done():
    notes = " ".join(hs.TableEncoder().fit(FRAME).notes_)
    for word in ("7 columns", "standardised", "6 indicator columns", "price", "name", "dates"):
        assert word in notes


@pytest.mark.parametrize("X", [FRAME[["pet", "income"]], FRAME.assign(x=np.nan)[["x"]]], ids=["text", "missing"])
def test_estimators_name_the_encoder(X):
    with pytest.raises(ValueError, match="TableEncoder"):
        hs.HeatSketch().fit(X)


def test_dates_beyond_the_range_of_nanoseconds():
    frame = pd.DataFrame(
        {"x": RNG.normal(size=6), "day": ["2020-01-01", "2020-01-03T12:00", None, "9999-12-31"] + ["1500-02-01"] * 2}
    )
    encoder = hs.TableEncoder(dates="number", standardize=False, impute="median").fit(frame)
    days = encoder.transform(frame)[:, 1]
    first = np.datetime64("1500-02-01")
    wanted = [
        (np.datetime64(day) - first) / np.timedelta64(1, "D")
        for day in ("2020-01-01", "2020-01-03T12:00", "9999-12-31")
    ]
    np.testing.assert_allclose(days[[0, 1, 3]], wanted)


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_far_dates_keep_their_order(unit):
    """Nanoseconds end in 2262: other units are not converted to them."""
    last = "2200-01-01" if unit == "ns" else "9999-12-31"
    dates = np.array(["2020-01-01", "2020-01-02", last], dtype=f"M8[{unit}]")
    encoded = hs.TableEncoder(dates="number", standardize=False).fit_transform(
        pd.DataFrame({"d": dates, "x": range(3)})
    )
    days = (dates - dates[0]) / np.timedelta64(1, "D")
    np.testing.assert_allclose(np.asarray(encoded)[:, 0], days)
