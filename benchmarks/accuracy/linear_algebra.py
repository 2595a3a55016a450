"""Factorisations, solvers and transforms (G. H. Golub, C. F. Van Loan, "Matrix Computations")."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.accuracy.program import Program, ones

N = 256
A = ones(N, N)


def _conjugate_gradient(a: Any, b: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        x, r, p = state
        ap = a @ p
        alpha = jnp.sum(r * r) / jnp.sum(p * ap)
        new = r - alpha * ap
        return (x + alpha * p, new, new + jnp.sum(new * new) / jnp.sum(r * r) * p), None

    return lax.scan(step, (b, b, b), None, length=25)[0][0]


def _orthogonalise(g: Any) -> Any:
    """Five Newton-Schulz steps, as the Muon optimiser takes them."""
    for _ in range(5):
        gram = g @ g.T
        g = 3.4445 * g + (-4.775 * gram + 2.0315 * gram @ gram) @ g
    return g


C = jnp.complex64
PROGRAMS = (
    Program("Cholesky", lambda a: lax.linalg.cholesky(a, symmetrize_input=False), (A,), N**3 / 3, formula="n³/3"),
    Program("Cholesky, batched", jnp.linalg.cholesky, (ones(6, 64, 64),), 6 * 64**3 / 3),
    Program("Cholesky, complex", jnp.linalg.cholesky, (ones(64, 64, dtype=C),), 4 * 64**3 / 3),
    Program("triangular solve", lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), (A, ones(N, 64)),
            N * N * 64, formula="n² for each right-hand side"),
    Program("Cholesky solve", lambda a, b: jax.scipy.linalg.cho_solve((a, True), b), (A, ones(N, 8)), 2 * N * N * 8),
    Program("LU", lambda a: lax.linalg.lu(a)[0], (A,), 2 * N**3 / 3, formula="2 n³/3"),
    Program("linear solve", jnp.linalg.solve, (A, ones(N, 8)), 2 * N**3 / 3 + 2 * N * N * 8),
    Program("inverse", jnp.linalg.inv, (A,), 2 * N**3 / 3 + 2 * N**3, formula="LU, then 2 n² for each column"),
    Program("QR", jnp.linalg.qr, (ones(N, 64),), 2 * (2 * N * 64**2 - 2 * 64**3 / 3),
            formula="2 m n² − 2 n³/3 for the factors, as much for Q"),
    Program("conjugate gradients, 25 steps", _conjugate_gradient, (A, ones(N)), 25 * 2 * N * N),
    Program("Newton-Schulz orthogonalisation", _orthogonalise, (ones(64, 128),),
            5 * (2 * 64 * 64 * 128 + 2 * 64**3 + 2 * 64 * 64 * 128)),
    Program("singular values", jnp.linalg.svd, (ones(64, 64),), unmodelled=True),
    Program("eigenvalues", jnp.linalg.eigh, (ones(64, 64),), unmodelled=True),
    Program("Fourier transform", jnp.fft.fft, (ones(16, 1024, dtype=C),), 0, 5 * 16 * 1024 * 10, formula="5 N log₂ N"),
    Program("real Fourier transform", jnp.fft.rfft, (ones(16, 1024),), 0, 2.5 * 16 * 1024 * 10,
            formula="half of it for real data"),
    Program("Fourier transform of a plane", jnp.fft.fft2, (ones(4, 64, 64, dtype=C),), 0, 5 * 4 * 4096 * 12),
    Program("Fourier convolution", lambda x, k: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(k)),
            (ones(16, 1024), ones(16, 1024)), 0, 16 * (3 * 2.5 * 1024 * 10 + 6 * 513)),
)  # fmt: skip
