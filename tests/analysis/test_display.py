"""Results show themselves: a line without arrays, sentences, tables for notebooks."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

import heatsketch as hs
from heatsketch._utils.display import html_table
from heatsketch.analysis.diagnosis import Diagnosis, Finding
from heatsketch.analysis.distortion import Distortion
from heatsketch.analysis.power import ChosenPower


class Table(HTMLParser):
    """Rows of cells, and a check that every tag is closed in its turn."""

    def __init__(self, html):
        super().__init__()
        self.open, self.rows, self.bold, self.caption = [], [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
            self.bold.append(False)
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.bold[-1] |= "bold" in dict(attrs).get("style", "")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "caption":
            self.caption += data
        else:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def model():
    X = hs.datasets.circle(80, random_state=0)
    return hs.GaussianProcessEmbedding(3, power="paths", n_exact=1, random_state=0).fit(X)


@pytest.fixture(scope="module")
def results(model):
    A, B = (hs.heat_kernel(hs.datasets.circle(60, random_state=s), bandwidth=0.5) for s in (0, 1))
    comparison = hs.compare_kernels(A, B, random_state=0)
    return {
        "Scales": model.scales([1, 4, model.power_]),
        "StabilityMap": model.stability("seed", n_repeats=2),
        "NeighborSupport": model.unsupported_neighbors(),
        "Distortion": model.distortion(),
        "KernelComparison": comparison,
        "GlobalDistance": comparison.total,
        "Estimate": hs.estimate((1000, 10)),
        "ChosenPower": model.power_choice_,
        "SpectralDensity": hs.spectral_density(model.kernel_),
    }


NAMES = (
    "Scales",
    "StabilityMap",
    "NeighborSupport",
    "Distortion",
    "KernelComparison",
    "GlobalDistance",
    "Estimate",
    "ChosenPower",
    "SpectralDensity",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_line_a_text_and_a_table(results, name):
    result = results[name]
    line = repr(result)
    assert line.startswith(f"{name}(")
    assert "\n" not in line
    assert len(line) < 400
    assert "array(" not in line
    assert not re.search(r"\.\d{6,}", line)  # floats of full length
    assert "array(" not in str(result)
    assert str(result) != line
    table = Table(result._repr_html_())
    assert table.caption == name
    assert len({len(row) for row in table.rows}) == 1
    assert all(cell for row in table.rows for cell in row)


def test_arrays_are_told_by_their_shape(results):
    assert "kept=<float64 (80,)>" in repr(results["StabilityMap"])
    assert "indices=<int64 (80, 15)>, supported=<bool (80, 15)>" in repr(results["NeighborSupport"])
    assert "total=GlobalDistance(distance=" in repr(results["KernelComparison"])


def test_the_chosen_scale_is_marked(results, model):
    scales = results["Scales"]
    table = Table(scales._repr_html_())
    header, *rows = table.rows
    assert header == ["power", "entropy", "effective dimension", "spectral dimension", "distortion", "paths"]
    assert [row[0] for row in rows] == ["1", "4", f"{model.power_:g}"]
    assert table.bold == [False, False, False, True]
    assert rows[0][1] == f"{scales.entropy[0]:.2f}"


def test_figures_are_those_of_the_result(results):
    distortion = results["Distortion"]
    rows = dict(Table(distortion._repr_html_()).rows)
    assert rows["log L"] == f"{distortion.log:.3f}"
    assert rows["L without 5% of the pairs at either end"] == f"{distortion.central[0.05]:.4g}"
    assert rows["pairs measured"] == "3,160, all"
    density = results["SpectralDensity"]
    rows = dict(Table(density._repr_html_()).rows)
    assert rows["effective dimension at time 4"] == f"{float(density.effective_dimension(4)):.3g}"
    rows = dict(Table(results["KernelComparison"]._repr_html_()).rows)
    most = int(np.argmax(results["KernelComparison"].item_distances))
    assert list(rows)[:2] == ["global diffusion distance", f"item {most}"]


def test_a_sampled_distortion_is_a_bound():
    sampled = Distortion(3.0, 1.0986, {0.01: 2.0}, (0, 1), (2, 3), 5000, exhaustive=False)
    assert str(sampled) == "L >= 3, log L >= 1.099, over a sample of 5,000 pairs"
    assert dict(Table(sampled._repr_html_()).rows)["L"] == "at least 3"


def test_a_power_at_the_end_of_the_range():
    powers = np.array([1.0, 2.0, 4.0])
    longest, inner = (ChosenPower(t, "paths", powers, powers, t != 2.0) for t in (4.0, 2.0))
    shortest = ChosenPower(1.0, "entropy", powers, powers, at_edge=True)
    assert str(longest) == "4 by paths, the longest of 3 times from 1 to 4"
    assert str(inner) == "2 by paths, of 3 times from 1 to 4"
    assert str(shortest) == "1 by entropy, the shortest of 3 times from 1 to 4"
    assert dict(Table(shortest._repr_html_()).rows)["effective dimension"] == "1"


def test_diagnosis():
    assert Table(Diagnosis()._repr_html_()).rows == [["Nothing looks wrong."]]
    found = Diagnosis([Finding("hub", 1.0, "a < b", "use c & d", harmful=True), Finding("late", 1.0, "e", "f")])
    table = Table(found._repr_html_())
    assert table.rows[1:] == [["hub", "a < b", "use c & d"], ["late", "e", "f"]]
    assert table.bold[1:] == [True, False]


def test_what_is_shown_is_text():
    html = html_table([("<script>", "a & b")], header=["<b>", '"'], title="<i>")
    assert not re.search("<script>|<b>|<i>|a & b", html)
    assert Table(html).rows == [["<b>", '"'], ["<script>", "a & b"]]


class TestEstimators:
    def test_a_fitted_one_shows_what_was_found(self, model):
        found = dict(model._found())
        assert found["samples"] == "80, in float64"
        assert found["kernel"] == "every pair"
        assert found["bandwidth"] == f"{model.bandwidth_:.4g} ({model.kernel_.bandwidth_rule})"
        assert found["power"] == f"{model.power_:g} (paths)"
        assert found["components"] == "3, 1 of them exact"
        for html in (model._repr_mimebundle_()["text/html"], model._repr_html_()):
            assert "sk-estimator" in html
            assert dict(Table(html[html.rindex('<table class="heatsketch">') :]).rows) == found

    def test_an_unfitted_one_is_as_scikit_learn_has_it(self, model):
        for html in (clone(model)._repr_mimebundle_()["text/html"], clone(model)._repr_html_()):
            assert "sk-estimator" in html
            assert '<table class="heatsketch">' not in html

    def test_text_where_no_diagram_is_wanted(self, model):
        with config_context(display="text"):
            assert list(model._repr_mimebundle_()) == ["text/plain"]
            assert not hasattr(model, "_repr_html_")

    def test_what_only_some_have(self):
        X = hs.datasets.circle(40, random_state=0)
        sketch = hs.HeatSketch(2, random_state=0).fit(X)
        assert dict(sketch._found())["distortion"] == str(sketch.distortion_)
        given = hs.DiffusionMaps(2, affinity="precomputed", power=3).fit(np.ones((5, 5)) + np.eye(5))
        assert dict(given._found())["power"] == "3 (given)"
        assert "bandwidth" not in dict(given._found())
        local = hs.GaussianProcessEmbedding(2, bandwidth="self-tuning", random_state=0).fit(X)
        assert dict(local._found())["bandwidth"] == f"median of {np.median(local.bandwidth_):.4g} (self-tuning)"
