"""The limit against solvers nobody here wrote (cvxpy, scikit-learn, HiGHS), and the numbers the authors print."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from netgrain.equivariant import limit, schatten_ratio, support_vector
from netgrain.equivariant.parametrisation import Array
from netgrain.equivariant.spherical import block_limit
from netgrain.groups import Group, dihedral, quaternion
from tests.equivariant.known_limits import signed, teacher

cp = pytest.importorskip("cvxpy", reason="the convex oracles need the extra [oracle]")

D8, D60 = dihedral(order=8), dihedral(order=60)
GAP = D8.reorder([0, 4, 2, 6, 1, 5, 7, 3])  # the authors' order of elements: e, r², r, r³, s, sr², sr, sr³


def solved(b: Any, objective: Any, Z: Array) -> tuple[float, Array]:
    """CLARABEL may call its solution inaccurate; values and certificates are what is tested."""
    problem = cp.Problem(cp.Minimize(objective), [Z @ b >= 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver="CLARABEL")
    return float(problem.value), np.asarray(b.value)


def nuclear_norm(real: Any, imaginary: Any) -> Any:
    """|A + iB|_* = ½ |[[A, −B], [B, A]]|_*."""
    return cp.normNuc(cp.bmat([[real, -imaginary], [imaginary, real]])) / 2


def nuclear_program(group: Group, Z: Array) -> tuple[float, Array]:
    """min Σ_ρ d_ρ |b̂(ρ)|_*, with matrices of irreps written out."""
    b = cp.Variable(group.order)
    total = 0
    for irrep in group.irreps:
        d, M = irrep.dimension, irrep.matrices.numpy().reshape(group.order, -1)
        real, imaginary = (cp.reshape(part.T @ b, (d, d), order="C") for part in (M.real, M.imag))
        total = total + d * (nuclear_norm(real, imaginary) if d > 1 else cp.norm(cp.vstack([real, imaginary]), "fro"))
    return solved(b, total, Z)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_group_cnn_of_depth_two_is_the_nuclear_program(seed: int) -> None:
    X, y = teacher(8, 10, seed)
    value, b = nuclear_program(D8, signed(X, y))
    found = limit(D8, X, y, depth=2)
    assert found.lower <= value * (1 + 1e-7)
    assert value <= found.upper * (1 + 1e-7)
    assert found.upper / value - 1 < 1e-5
    assert found.beta.numpy() == pytest.approx(b, abs=1e-3)


def test_nuclear_program_without_irreps() -> None:
    """The nuclear norm of C(b)[x, y] = b(x⁻¹y) knows no irreps; Q8 has a quaternionic one."""
    for group in (D8, quaternion(order=8)):
        X, y = teacher(8, 6, 4)
        index = group.cayley[group.inverse].numpy()
        gather = np.eye(8)[index.reshape(-1)]  # C(b) = reshape(gather b)
        b = cp.Variable(8)
        value, _ = solved(b, cp.normNuc(cp.reshape(gather @ b, (8, 8), order="C")), signed(X, y))
        assert nuclear_program(group, signed(X, y))[0] == pytest.approx(value, rel=1e-6)
        found = limit(group, X, y, depth=2)
        assert found.objective == pytest.approx(value, rel=2e-5)
        assert found.lower <= value * (1 + 1e-7)


def test_dual_bracket_on_d60_contains_the_optimum() -> None:
    X, y = teacher(60, 10, 0)
    value, _ = nuclear_program(D60, signed(X, y))
    found = limit(D60, X, y, depth=2)
    assert found.lower * (1 - 1e-6) <= value <= found.upper * (1 + 1e-6)
    assert found.upper / found.lower - 1 < 1e-5


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_fully_connected_is_the_support_vector_machine(depth: int) -> None:
    svm = pytest.importorskip("sklearn.svm")
    X, y = teacher(8, 10, 0)
    Z = signed(X, y)
    b = cp.Variable(8)
    _, program = solved(b, cp.sum_squares(b), Z)
    mirrored, labels = np.concatenate([Z, -Z]), np.repeat([1, -1], len(Z))  # forces the intercept to zero
    machine = svm.SVC(kernel="linear", C=1e8, tol=1e-10).fit(mirrored, labels).coef_[0]
    exact = support_vector(X, y).numpy()
    found = limit(D8, X, y, depth=depth, net="fully-connected")
    for other in (program, machine, found.beta.numpy()):
        assert other @ exact / np.linalg.norm(other) / np.linalg.norm(exact) > 1 - 1e-9
    assert np.linalg.norm(program) == pytest.approx(np.linalg.norm(exact), rel=1e-6)
    assert 0 < found.objective / np.linalg.norm(exact) - 1 < 1e-5


def test_diagonal_of_depth_two_is_the_linear_program() -> None:
    X, y = teacher(8, 10, 0)
    Z = signed(X, y)
    program = linprog(np.ones(16), A_ub=-np.hstack([Z, -Z]), b_ub=-np.ones(10), bounds=(0, None))
    found = limit(D8, X, y, depth=2, net="diagonal")
    assert 0 < found.objective / program.fun - 1 < 1e-5
    assert found.lower <= program.fun
    assert found.beta.numpy() == pytest.approx(program.x[:8] - program.x[8:], abs=1e-3)


def test_circular_of_depth_two_is_the_second_order_program() -> None:
    X, y = teacher(8, 10, 0)
    F = np.fft.fft(np.eye(8))
    b = cp.Variable(8)
    value, _ = solved(b, cp.sum(cp.norm(cp.vstack([F.real @ b, F.imag @ b]), axis=0)), signed(X, y))
    found = limit(D8, X, y, depth=2, net="circular")
    assert abs(found.objective / value - 1) < 1e-5
    assert found.lower <= value * (1 + 1e-7)


@pytest.mark.parametrize("seed", [0, 3])
def test_raw_coefficients_minimise_the_unweighted_norm(seed: int) -> None:
    """Spec 5.8: isometric coordinates reach the d-weighted optimum, raw Fourier coefficients the unweighted one.

    On the seeds 1, 2 and 4 the two problems happen to have the same solution (only blocks of one size in use).
    """
    sizes = [1, 1, 1, 3, 3]
    X, y = teacher(21, 10, seed)
    ends = np.cumsum([0, *(d * d for d in sizes)])

    def program(weights: list[int]) -> float:
        b = cp.Variable(21)
        parts = [b[int(i) : int(j)] / math.sqrt(d) for i, j, d in zip(ends, ends[1:], sizes, strict=False)]
        blocks = [cp.reshape(v, (d, d), order="C") for v, d in zip(parts, sizes, strict=True)]
        total = sum(
            c * (cp.normNuc(B) if d > 1 else cp.abs(B[0, 0])) for c, B, d in zip(weights, blocks, sizes, strict=True)
        )
        return solved(b, total, signed(X, y))[0]

    def norm(values: tuple[torch.Tensor, ...], weights: list[int]) -> float:
        return sum(c * v.sum().item() for c, v in zip(weights, values, strict=True))

    weighted, unweighted = program(sizes), program([1] * 5)
    isometric, naive = (block_limit(sizes, sizes, X, y, depth=2, isometric=flag) for flag in (True, False))
    assert abs(norm(isometric.singular_values, sizes) / weighted - 1) < 1e-4
    assert norm(isometric.singular_values, [1] * 5) / unweighted - 1 > 1e-2
    assert abs(norm(naive.singular_values, [1] * 5) / unweighted - 1) < 1e-4
    assert norm(naive.singular_values, sizes) / weighted - 1 > 1e-2


# --- the authors' own numbers -----------------------------------------------------------------------------------------


def test_authors_printed_optimum_of_two_gaussians() -> None:
    """`torch.manual_seed(2)`, x = randn(2, 8), y = (−1, +1): the unit β they print, to all digits (spec 3.2)."""
    X = torch.randn(2, 8, generator=torch.Generator().manual_seed(2))
    printed = torch.tensor([-0.0394, 0.0394, -0.4984, 0.4984, 0.4856, -0.4856, 0.1190, -0.1190], dtype=torch.float64)
    found = limit(GAP, X, torch.tensor([-1.0, 1.0]), depth=2)
    unit = found.beta / found.beta.norm()
    assert unit.numpy() == pytest.approx(printed.numpy(), abs=6e-5)
    assert found.objective == pytest.approx(3.647701, abs=5e-5)
    assert schatten_ratio(GAP, unit, 3).item() == pytest.approx(5.65687, abs=2e-3)
    value, b = nuclear_program(GAP, signed(X.double(), torch.tensor([-1.0, 1.0])))
    assert value == pytest.approx(3.647701, abs=1e-6)
    assert b / np.linalg.norm(b) == pytest.approx(printed.numpy(), abs=6e-5)


def test_authors_two_columns_of_the_dft() -> None:
    """x = χ₂ (−1), χ₃ (+1): nuclear optimum 2, and its ratio at p = 2/3 is 4√2 (spec 3.1)."""
    X = torch.tensor([[1.0, 1, -1, -1, 1, 1, -1, -1], [1, 1, -1, -1, -1, -1, 1, 1]])
    found = limit(GAP, X, torch.tensor([-1.0, 1.0]), depth=2)
    assert found.objective == pytest.approx(2, abs=2e-5)
    assert found.lower == pytest.approx(2, abs=1e-9)
    assert found.weighted_rank == 2
    assert found.beta.numpy() == pytest.approx(((X[1] - X[0]) / 8).numpy(), abs=1e-5)
    assert schatten_ratio(GAP, found.beta, 3).item() == pytest.approx(4 * math.sqrt(2), abs=1e-6)
