"""The paper in NumPy: closed forms, and the expectations of its random sketches."""

from __future__ import annotations

import numpy as np
import pytest

from heatsketch import reference

N = 60


@pytest.fixture(scope="module")
def circle():
    angles = 2 * np.pi * np.arange(N) / N
    return np.column_stack([np.cos(angles), np.sin(angles)])


@pytest.fixture(scope="module")
def spectrum(circle):
    """Eigenvalues for equispaced points: the Fourier coefficients of a row of the circulant kernel."""
    row = np.exp(-np.square(circle - circle[0]).sum(axis=1) / 0.3)
    return np.sort(np.fft.fft(row / row.sum()).real)[::-1]


KERNELS = [reference.symmetric_kernel, reference.bistochastic_kernel]


@pytest.mark.parametrize("kernel", KERNELS)
def test_spectrum_on_the_circle(circle, spectrum, kernel):
    A = kernel(circle, 0.3)
    np.testing.assert_allclose(np.linalg.eigvalsh(A)[::-1], spectrum, atol=1e-12)


@pytest.mark.parametrize("power", [1, 3])
def test_diffusion_maps_of_the_circle_are_a_circle(circle, spectrum, power):
    Y = reference.diffusion_maps(reference.bistochastic_kernel(circle, 0.3), 2, power)
    radius = spectrum[1] ** power * np.sqrt(2 / N)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), radius, rtol=1e-10)


@pytest.mark.parametrize("power", [1, 4])
def test_diffusion_distances_on_the_circle(circle, power):
    d = reference.diffusion_distances(reference.bistochastic_kernel(circle, 0.3), power)
    row = np.exp(-np.square(circle - circle[0]).sum(axis=1) / 0.3)
    at_twice = np.fft.ifft(np.fft.fft(row / row.sum()).real ** (2 * power)).real  # the kernel at twice the time
    expected = np.sqrt(2 * (at_twice[0] - at_twice[1]))
    np.testing.assert_allclose(d[np.arange(N), (np.arange(N) + 1) % N], expected, rtol=1e-8)


def test_bistochastic_rows_sum_to_one_for_uneven_points():
    X = np.random.default_rng(0).normal(size=(40, 2)) ** 2
    A = reference.bistochastic_kernel(X, 2.0)
    np.testing.assert_allclose(A, A.T)
    np.testing.assert_allclose(A.sum(axis=1), 1.0, atol=1e-7)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_symmetric_kernel_has_eigenvalue_one(alpha):
    X = np.random.default_rng(1).normal(size=(50, 3))
    values = np.linalg.eigvalsh(reference.symmetric_kernel(X, 1.0, alpha))
    assert values[-1] == pytest.approx(1.0)
    assert values[0] > -1e-12


def test_sketches_are_unbiased(circle):
    # E[G G^T] = I: where G G^T is the identity itself, inner products are exact.
    A = reference.symmetric_kernel(circle, 0.3)
    orthogonal = np.linalg.qr(np.random.default_rng(0).normal(size=(N, N)))[0]
    Y = reference.embed(A, orthogonal, 2)
    np.testing.assert_allclose(Y @ Y.T, np.linalg.matrix_power(A, 4), atol=1e-12)


@pytest.mark.parametrize("embedding", [reference.gaussian_process_embedding, reference.bernoulli_embedding])
def test_squared_distances_have_the_right_mean(circle, embedding):
    A = reference.bistochastic_kernel(circle, 0.3)
    d = reference.diffusion_distances(A, 2)[0, N // 2]
    k = 20_000
    Y = embedding(A, k, 2, random_state=0)
    mean = np.square(Y[0] - Y[N // 2]).sum() / d**2
    assert abs(mean - 1) < 5 * np.sqrt(2 / k)
