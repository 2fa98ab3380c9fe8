"""How results are displayed: a short line, text, and a table in notebooks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

import heatsketch as hs
from heatsketch._utils.display import html_table
from heatsketch.analysis.diagnosis import Diagnosis, Finding


@pytest.fixture(scope="module")
def model():
    X = hs.datasets.circle(80, random_state=0)
    return hs.GaussianProcessEmbedding(3, n_exact=1, random_state=0).fit(X)


@pytest.fixture(scope="module")
def results(model):
    A, B = (hs.heat_kernel(hs.datasets.circle(60, random_state=s), bandwidth=0.5) for s in (0, 1))
    comparison = hs.compare_kernels(A, B, random_state=0)
    return [
        model.scales([1, 4]),
        model.stability("seed", n_repeats=2),
        model.unsupported_neighbors(),
        model.distortion(),
        comparison,
        comparison.total,
        hs.estimate((1000, 10)),
        hs.spectral_density(model.kernel_),
    ]


def test_results_have_a_line_a_text_and_a_table(results):
    for result in results:
        line, name = repr(result), type(result).__name__
        assert line.startswith(f"{name}(")
        assert "\n" not in line
        assert len(line) < 400
        assert "array(" not in line + str(result)
        html = result._repr_html_()
        assert name in html
        assert html.count("<tr>") == html.count("</tr>") > 1


def test_diagnosis():
    assert "Nothing" in Diagnosis()._repr_html_()
    found = Diagnosis([Finding("hub", 1.0, "a < b", "use c & d", harmful=True), Finding("late", 1.0, "e", "f")])
    assert found._repr_html_().count("bold") > 1  # the caption, and the harmful finding


def test_cells_are_escaped():
    html = html_table([("<script>", "a & b")], header=["<b>", '"'], title="<i>")
    assert not re.search("<script>|<b>|<i>|a & b", html)


def test_fitted_estimator_adds_what_it_found(model):
    for html in (model._repr_mimebundle_()["text/html"], model._repr_html_()):
        assert "sk-estimator" in html
        assert f"{np.median(model.bandwidth_):.4g}" in html[html.rindex('<table class="heatsketch">') :]
    assert '<table class="heatsketch">' not in clone(model)._repr_html_()
    with config_context(display="text"):
        assert list(model._repr_mimebundle_()) == ["text/plain"]
