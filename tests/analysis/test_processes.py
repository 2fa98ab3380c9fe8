"""Gaussian processes on the data: covariance, the Karhunen-Loève expansion, secants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import heatsketch as hs


@pytest.fixture(scope="module", params=["symmetric", "bistochastic", "stochastic"])
def small(request):
    return hs.heat_kernel(hs.datasets.circle(25, random_state=0), bandwidth=0.5, normalization=request.param)


def _covariance(kernel, power):
    values, vectors = np.linalg.eigh(kernel.symmetric.toarray())
    C = (vectors * np.maximum(values, 0) ** (2 * power)) @ vectors.T
    return C if kernel.row_weight is None else np.outer(kernel.row_weight, kernel.row_weight) * C


@pytest.mark.parametrize("method", ["sketch", "karhunen-loeve"])
@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_covariance_is_the_kernel(small, method, power):
    n = 10_000
    f = hs.gaussian_process(small, n, power=power, method=method, random_state=0)
    C = _covariance(small, power)
    variance = np.outer(np.diagonal(C), np.diagonal(C)) + C**2  # of a product of two jointly normal variables
    assert (np.abs(f @ f.T / n - C) < 5.5 * np.sqrt(variance / n)).all()
    assert (np.abs(f.mean(axis=1)) < 5 * np.sqrt(np.diagonal(C) / n)).all()


@pytest.mark.parametrize("method", ["sketch", "karhunen-loeve"])
def test_values_are_normal(small, method):
    f = hs.gaussian_process(small, 2000, method=method, random_state=1)
    scale = np.sqrt(np.diagonal(_covariance(small, 0.5)))
    for i in (0, 7, 24):
        assert stats.kstest(f[i] / scale[i], "norm").pvalue > 1e-3


def test_truncated_expansion_lacks_the_small_scales():
    A = hs.heat_kernel(hs.datasets.circle(200, random_state=0), bandwidth=0.05)
    whole = hs.gaussian_process(A, 200, method="karhunen-loeve", random_state=0)
    few = hs.gaussian_process(A, 200, method="karhunen-loeve", n_terms=4, random_state=0)
    values = np.sort(np.linalg.eigvalsh(A.toarray()))[::-1]
    assert np.square(few).sum() / np.square(whole).sum() == pytest.approx(values[:5].sum() / values.sum(), rel=0.2)


def test_gaussian_process_embedding_is_draws_of_the_process(torus):
    A = hs.heat_kernel(torus, bandwidth=1.0)
    f = hs.gaussian_process(A, 5, power=6, random_state=3)
    model = hs.GaussianProcessEmbedding(5, power=6, bandwidth=1.0, random_state=3).fit(torus)
    shift = model.embedding_ - f / np.sqrt(5)  # of the constant mode, which embeddings leave out
    np.testing.assert_allclose(shift - shift.mean(axis=0), 0.0, atol=1e-9)


def test_unknown_method():
    with pytest.raises(ValueError, match="karhunen-loeve"):
        hs.gaussian_process(np.eye(3), method="cholesky")


def test_canonical_metric():
    C = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(hs.canonical_metric(C), [np.sqrt(2)])
    A = hs.heat_kernel(hs.datasets.circle(30, random_state=0), bandwidth=0.5)
    np.testing.assert_allclose(hs.canonical_metric(A), hs.diffusion_distances(A, 0.5), atol=1e-7)


class TestSecants:
    triples = np.array([[0, 1, 2], [5, 9, 9], [100, 3, 250], [7, 7, 8]])

    @pytest.mark.parametrize("power", [1, 4])
    def test_are_inner_products_of_kernel_rows(self, torus, power):
        A = hs.heat_kernel(torus, bandwidth=1.0, normalization="symmetric")
        rows = np.linalg.matrix_power(A.toarray(), power)
        i, j, k = self.triples.T
        expected = ((rows[i] - rows[j]) * (rows[i] - rows[k])).sum(axis=1)
        np.testing.assert_allclose(hs.secant_products(A, power, self.triples), expected, atol=1e-12)

    def test_equal_ends_give_the_squared_distance(self, kernel):
        pair = hs.diffusion_distances(kernel, 2, [[5, 9]])
        assert hs.secant_products(kernel, 2, [[5, 9, 9]])[0] == pytest.approx(pair[0] ** 2)

    @pytest.mark.parametrize("sketch", ["gaussian", "rademacher", "rademacher-hash", "columns"])
    def test_are_the_expectation_of_those_in_the_embedding(self, torus, sketch):
        model = hs.GaussianProcessEmbedding(20, power=4, bandwidth=1.0, sketch=sketch).fit(torus)
        found, (i, j, k) = [], self.triples.T
        for seed in range(150):  # another sketch of the same kernel each time
            model.set_params(random_state=seed)._embed(model.kernel_, 4.0, np.float64)
            Y = model.embedding_
            found.append(((Y[i] - Y[j]) * (Y[i] - Y[k])).sum(axis=1))
        expected = hs.secant_products(model.kernel_, 4, self.triples)
        error = np.std(found, axis=0) / np.sqrt(len(found))
        assert (np.abs(np.mean(found, axis=0) - expected) < 4 * error + 1e-15).all()

    def test_bad_triples(self, kernel):
        with pytest.raises(ValueError, match="triple"):
            hs.secant_products(kernel, 1, [[0, 1]])
