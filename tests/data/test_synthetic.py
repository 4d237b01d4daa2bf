"""Synthetic data against its definition: exact where it is exact, moments within their standard errors elsewhere."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from netgrain import Geometry, data
from netgrain.data import Dataset
from netgrain.runtime.errors import NetgrainError

SHAPE = (2, 3, 4)
D = 24
N = 6000


def directions(k: int, seed: int = 0) -> Tensor:
    """k orthonormal directions of SHAPE."""
    generator = torch.Generator().manual_seed(seed)
    Q, _ = torch.linalg.qr(torch.randn(D, k, generator=generator, dtype=torch.float64))
    return Q.T.reshape(k, *SHAPE).contiguous()


def geometry(seed: int = 0) -> Geometry:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(D, 10, generator=generator, dtype=torch.float64)
    return Geometry.from_matrix(root @ root.T, SHAPE)


def images(n: int = 400, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, *SHAPE, generator=generator)
    return X * torch.tensor([3.0, 0.5]).reshape(2, 1, 1) + torch.tensor([0.4, -1.0]).reshape(2, 1, 1)


U = directions(3)
MAKERS: dict[str, Callable[[int], Dataset]] = {
    "doughnut": lambda seed: data.doughnut(U[0], U[1], N, noise=0.7, seed=seed),
    "isotropic": lambda seed: data.isotropic(U[0], N, labels="quadratic", epsilon=2.0, seed=seed),
    "planted": lambda seed: data.planted(images(), U[0], seed=seed),
    "linear_and_circle": lambda seed: data.linear_and_circle(U[0], U[1], U[2], N, seed=seed),
    "gaussian_like": lambda seed: data.gaussian_like(geometry(), N, seed=seed),
}


def assert_covariance(X: Tensor, expected: Tensor) -> None:
    """Mean 0 and second moments E[x xᵀ], every entry within its standard error.

    For Gaussians Var of an entry is (C_ii C_jj + C_ij²)/n; of the few hundred entries the largest may reach 5.
    """
    X = X.flatten(1).double()
    n = len(X)
    diagonal = expected.diagonal()
    error = ((diagonal[:, None] * diagonal[None] + expected.square()) / n).sqrt()
    assert bool(((X.T @ X / n - expected).abs() <= 5 * error + 1e-9).all())
    assert bool((X.mean(0).abs() <= 5 * (diagonal / n).sqrt() + 1e-9).all())


def test_the_comparison_of_covariances_rejects_a_wrong_one() -> None:
    X = torch.randn(N, 3, generator=torch.Generator().manual_seed(0))
    assert_covariance(X, torch.eye(3).double())
    with pytest.raises(AssertionError):
        assert_covariance(1.1 * X, torch.eye(3).double())
    with pytest.raises(AssertionError):
        assert_covariance(X + 0.1, torch.eye(3).double())


def complement(*used: Tensor) -> Tensor:
    rows = torch.stack([u.flatten() for u in used])
    return torch.eye(D, dtype=torch.float64) - rows.T @ rows


def assert_half(share: float, n: int) -> None:
    assert abs(share - 0.5) <= 4 * 0.5 / math.sqrt(n)


# --- the contract of all ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_seeds_decide_everything_and_the_global_generator_is_left_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = MAKERS[name](3), MAKERS[name](3), MAKERS[name](4)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.X, again.X)
    assert torch.equal(first.y, again.y)
    assert not torch.equal(first.y, other.y)
    assert torch.equal(first.X, other.X) == (name == "planted")


@pytest.mark.parametrize("name", MAKERS)
def test_samples_have_the_shape_of_the_directions_and_two_classes_of_half_the_size(name: str) -> None:
    made = MAKERS[name](0)
    assert made.shape == SHAPE
    assert len(made.classes) == 2
    assert_half(float(made.y.double().mean()), len(made))


def test_two_kinds_of_data_with_one_seed_have_different_noise() -> None:
    a = data.doughnut(U[0], U[1], N, noise=1.0, seed=0).X.flatten()
    b = data.isotropic(U[0], N, seed=0).X.flatten()
    assert abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) < 0.02


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ((U[0], U[0]), "not orthonormal: their inner products differ from the identity by 1"),
        ((U[0], 1.001 * U[1]), "differ from the identity by 0.002"),
        ((U[0], U[1] + 0.001 * U[0]), "not orthonormal"),
        ((U[0], U[1] * float("nan")), "not orthonormal"),
        ((U[0], U[1].flatten()), "directions of one shape"),
    ],
)
def test_directions_that_are_not_orthonormal_are_refused(used: tuple[Tensor, Tensor], words: str) -> None:
    with pytest.raises(NetgrainError, match=words):
        data.doughnut(*used, 10, noise=1.0)
    with pytest.raises(NetgrainError, match=words):
        data.linear_and_circle(U[2], *used, 10)
    with pytest.raises(NetgrainError, match=words):
        data.without(MAKERS["doughnut"](0), *used)


@pytest.mark.parametrize(
    "call",
    [lambda: data.isotropic(2 * U[0], 10), lambda: data.planted(images(), 2 * U[0])],
    ids=["isotropic", "planted"],
)
def test_a_single_direction_must_have_unit_norm(call: Callable[[], Dataset]) -> None:
    with pytest.raises(NetgrainError, match=r"not orthonormal: .* by 3"):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: data.doughnut(U[0], U[1], 0, noise=1.0), "0 samples were asked for"),
        (lambda: data.doughnut(U[0], U[1], 5, noise=-1.0), "noise -1.0 was given"),
        (lambda: data.isotropic(U[0], 5, sigma=math.nan), "sigma nan was given"),
        (lambda: data.isotropic(U[0], 5, labels="cubic"), "labels 'cubic' are not known; expected one of linear"),
        (lambda: data.planted(images(), U[0], labels="cubic"), "labels 'cubic' are not known"),
        (lambda: data.planted(images()[:, :1], U[0]), "differ"),
        (lambda: data.planted(images(), U[0], reference=images()[:, :1]), "the reference"),
        (
            lambda: data.isotropic(U[0], 5, labels="sinusoidal", frequency=0.0),
            "sinusoidal labels need a positive frequency .epsilon by default., got 0",
        ),
        (lambda: data.planted(images(), U[0], scale=2.0), "sinusoidal labels, got 2 and linear labels"),
        (lambda: data.planted(images(), U[0], labels="sinusoidal", scale=0.0), "scale expects a positive number"),
        (lambda: data.phase_spread(images()[:, :1], U[0]), "differ"),
        (lambda: data.isotropic(U[0], 5, seed=0.5), "seed expects a whole number"),
        (lambda: data.without(Dataset(torch.zeros(2, D), torch.zeros(2).long()), U[0]), "differ"),
        (lambda: data.without(MAKERS["doughnut"](0)), "at least one direction"),
        (lambda: data.doughnut(torch.ones(1), torch.ones(1), 5, noise=1.0), "2 directions do not fit into 1"),
        (lambda: data.gaussian_like(Geometry.from_matrix(torch.zeros(3, 3)), 5), "the geometry is zero"),
    ],
)
def test_bad_arguments_are_told(call: Callable[[], Dataset], words: str) -> None:
    with pytest.raises(NetgrainError, match=words):
        call()


def test_directions_in_single_precision_are_mended() -> None:
    made = data.doughnut(U[0].float(), U[1].float(), 100, noise=0.0)
    radius = made.X.flatten(1).norm(dim=1)
    torch.testing.assert_close(radius, 1.0 + made.y, atol=1e-6, rtol=0)


# --- each one against its definition ---------------------------------------------------------------------------


def test_the_doughnut_is_two_exact_circles_in_its_plane_and_noise_elsewhere() -> None:
    made = data.doughnut(U[0], U[1], N, noise=0.7, radii=(1.0, 2.5), seed=1)
    x = made.X.flatten(1).double()
    a, b = x @ U[0].flatten(), x @ U[1].flatten()
    torch.testing.assert_close(torch.hypot(a, b), torch.tensor([1.0, 2.5]).double()[made.y], atol=1e-6, rtol=0)
    assert made.counts == (N // 2, N // 2)
    assert made.classes == ("inner", "outer")
    outside = x - a[:, None] * U[0].flatten() - b[:, None] * U[1].flatten()
    assert_covariance(outside, 0.49 * complement(U[0], U[1]))
    angle = torch.atan2(b, a)
    for k in (1, 2, 3):  # uniform: the first Fourier coefficients vanish, each with variance 1/2
        assert abs(float((k * angle).cos().mean())) <= 4 * math.sqrt(0.5 / N)
        assert abs(float((k * angle).sin().mean())) <= 4 * math.sqrt(0.5 / N)


def test_radial_jitter_has_its_standard_deviation() -> None:
    made = data.doughnut(U[0], U[1], N, noise=0.0, radii=(4.0, 8.0), jitter=0.2, seed=1)
    off = made.X.flatten(1).double().norm(dim=1) - torch.tensor([4.0, 8.0]).double()[made.y]
    assert abs(float(off.mean())) <= 4 * 0.2 / math.sqrt(N)
    assert abs(float(off.std()) - 0.2) <= 4 * 0.2 / math.sqrt(2 * N)


@pytest.mark.parametrize("labels", ["linear", "quadratic", "sinusoidal"])
def test_isotropic_labels_follow_the_coordinate_and_moments_the_definition(labels: str) -> None:
    made = data.isotropic(U[0], N, labels=labels, epsilon=2.0, sigma=0.5, seed=2)
    x = made.X.flatten(1).double()
    alpha = (x @ U[0].flatten() / 2.0).tolist()
    rules = {
        "linear": lambda a: a > 0,
        "quadratic": lambda a: abs(a) > 0.6744897501960817,  # the upper quartile of N(0, 1)
        "sinusoidal": lambda a: math.sin(2.0 * a) > 0,  # sin(x·u), and x·u = ε α
    }
    naive = [int(rules[labels](a)) for a in alpha]
    differ = sum(label != expected for label, expected in zip(made.y.tolist(), naive, strict=True))
    assert differ <= 1  # a coordinate within rounding of the boundary
    u = U[0].flatten()
    assert_covariance(x, 4.0 * torch.outer(u, u) + 0.25 * complement(U[0]))


def test_a_frequency_of_its_own_replaces_epsilon() -> None:
    def labels(epsilon: float, frequency: float | None, **options: str) -> Tensor:
        return data.isotropic(
            U[0], N, labels=options.get("labels", "sinusoidal"), epsilon=epsilon, frequency=frequency, seed=2
        ).y

    alpha = data.isotropic(U[0], N, epsilon=1.0, seed=2).X.flatten(1).double() @ U[0].flatten()
    naive = torch.tensor([int(math.sin(math.pi * a) > 0) for a in alpha.tolist()])
    assert (labels(2.0, math.pi) != naive).sum() <= 1
    assert torch.equal(labels(2.0, math.pi), labels(5.0, math.pi))  # whatever epsilon is
    assert torch.equal(labels(2.0, None), labels(5.0, 2.0))
    assert float((labels(2.0, None) != labels(5.0, None)).double().mean()) > 0.2
    assert torch.equal(labels(2.0, 3.0, labels="linear"), labels(2.0, None, labels="linear"))


def test_the_phase_has_the_spread_that_was_asked_for() -> None:
    X = images()
    std = X.double().numpy().std((0, 2, 3))
    phase = [sum(float((x[c] * U[0][c]).sum()) / std[c] for c in range(SHAPE[0])) for x in X.double()]
    middle = sum(phase) / len(phase)
    spread = math.sqrt(sum((p - middle) ** 2 for p in phase) / len(phase))
    assert data.phase_spread(X, U[0]) == pytest.approx(spread)
    assert data.phase_spread(7 * X, U[0]) == pytest.approx(spread)  # channels are normalised
    sines = [math.sin(5.0 / spread * p) for p in phase]
    naive = [int(s > sum(sorted(sines)[len(sines) // 2 - 1 : len(sines) // 2 + 1]) / 2) for s in sines]
    made = data.planted(X, U[0], labels="sinusoidal", label_noise=0.0, scale=5.0)
    assert made.y.tolist() == naive
    assert "scaled to 5 radians" in made.note
    assert made.y.tolist() != data.planted(X, U[0], labels="sinusoidal", label_noise=0.0).y.tolist()
    assert data.planted(X, U[0], labels="sinusoidal", label_noise=0.0, scale=spread).y.tolist() == (
        data.planted(X, U[0], labels="sinusoidal", label_noise=0.0).y.tolist()
    )


@pytest.mark.parametrize("labels", ["linear", "quadratic", "sinusoidal"])
def test_planted_labels_equal_a_naive_loop_when_there_is_no_noise(labels: str) -> None:
    X = images()
    std = X.double().numpy().std((0, 2, 3))
    scores = []
    for x in X.double():
        total = 0.0
        for c in range(SHAPE[0]):
            scale = std[c] if labels == "sinusoidal" else 1.0
            total += float((x[c] * U[0][c]).sum()) / scale
        scores.append({"linear": total, "quadratic": total**2, "sinusoidal": math.sin(total)}[labels])
    middle = sorted(scores)[len(scores) // 2 - 1 : len(scores) // 2 + 1]
    naive = [int(score > sum(middle) / 2) for score in scores]
    made = data.planted(X, U[0], labels=labels, label_noise=0.0)
    assert made.y.tolist() == naive
    assert made.counts == (200, 200)
    assert torch.equal(made.X, X)


@pytest.mark.parametrize("labels", ["linear", "sinusoidal"])
def test_label_noise_has_the_variance_that_was_asked_for(labels: str) -> None:
    """Signs of two Gaussians with correlation r differ with probability arccos(r)/π, here r = 1/√(1 + noise)."""
    n = 40_000
    X = images(n, seed=5) - torch.tensor([0.4, -1.0]).reshape(2, 1, 1)
    clean = data.planted(X, U[0], labels=labels, label_noise=0.0)
    noisy = data.planted(X, U[0], labels=labels, label_noise=0.2, seed=1)
    if labels == "sinusoidal":  # x̄·u ~ N(0, 1); the sine folds its tails, so the oracle is a simulation
        signal = (X.double() / X.double().std((0, 2, 3), correction=0).reshape(2, 1, 1)).flatten(1) @ U[0].flatten()
        generator = torch.Generator().manual_seed(7)
        disturbed = signal + math.sqrt(0.2) * torch.randn(n, generator=generator, dtype=torch.float64)
        a, b = signal.sin(), disturbed.sin()
        expected = float(((a > a.median()) != (b > b.median())).double().mean())
        error = math.sqrt(2 * expected * (1 - expected) / n)
    else:
        expected = math.acos(1 / math.sqrt(1.2)) / math.pi
        error = math.sqrt(expected * (1 - expected) / n)
    flipped = float((clean.y != noisy.y).double().mean())
    assert abs(flipped - expected) <= 4 * error
    assert 0.1 < expected < 0.2


def test_a_test_set_is_labelled_by_the_rule_of_its_training_set() -> None:
    X = images(300)
    train = data.planted(X, U[0], labels="quadratic", label_noise=0.0)
    same = data.planted(X[:50], U[0], labels="quadratic", label_noise=0.0, reference=X)
    own = data.planted(X[:50] * 2, U[0], labels="quadratic", label_noise=0.0, reference=X)
    assert torch.equal(same.y, train.y[:50])
    assert own.counts[1] > 30  # twice the size, same threshold
    noisy = data.planted(X, U[0], seed=1)
    others = data.planted(X, U[0], seed=1, reference=X)
    assert not torch.equal(noisy.y, others.y)  # new noise for other images


def test_a_constant_channel_does_not_disturb_planted_labels() -> None:
    X = images()
    X[:, 1] = 0.25
    assert data.planted(X, U[0], labels="sinusoidal").counts == (200, 200)


def test_linear_and_circle_is_exact_in_its_three_directions_and_noise_elsewhere() -> None:
    made = data.linear_and_circle(U[0], U[1], U[2], N, epsilon=0.8, radii=(1.5, 0.25), noise=0.6, seed=3)
    x = made.X.flatten(1).double()
    step, a, b = (x @ u.flatten() for u in U)
    torch.testing.assert_close(step, 0.8 * (2.0 * made.y.double() - 1), atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.hypot(a, b), torch.tensor([1.5, 0.25]).double()[made.y], atol=1e-6, rtol=0)
    inside = sum((x @ u.flatten())[:, None] * u.flatten() for u in U)
    assert_covariance(x - inside, 0.36 * complement(*U))


def test_without_removes_one_part_and_keeps_the_other() -> None:
    made = MAKERS["linear_and_circle"](0)
    circle, step = data.without(made, U[0]), data.without(made, U[1], U[2])
    for left, gone, kept in ((circle, U[:1], U[1:]), (step, U[1:], U[:1])):
        x, before = left.X.flatten(1).double(), made.X.flatten(1).double()
        assert float((x @ gone.flatten(1).T).abs().max()) < 1e-6
        torch.testing.assert_close(x @ kept.flatten(1).T, before @ kept.flatten(1).T, atol=1e-6, rtol=0)
        assert torch.equal(left.y, made.y)
        assert left.note.endswith("projected out")


@pytest.mark.parametrize("flipped", [False, True])
def test_gaussian_samples_have_the_covariance_of_the_geometry(flipped: bool) -> None:
    G = geometry()
    H = G.flip(seed=1) if flipped else G
    expected = H.matrix() / torch.linalg.eigvalsh(H.matrix())[-1]
    made = data.gaussian_like(G, 20_000, seed=1, flipped=flipped)
    assert_covariance(made.X, expected)
    values, vectors = torch.linalg.eigh(H.matrix())
    null = vectors[:, values < 1e-9 * values[-1]]
    assert null.shape[1] >= 1
    assert float((made.X.flatten(1).double() @ null).abs().max()) < 1e-5


def test_labels_of_gaussian_samples_know_nothing_of_the_samples() -> None:
    made = data.gaussian_like(geometry(), N, classes=3)
    counts = torch.tensor(made.counts).double()
    assert float((counts - N / 3).abs().max()) <= 4 * math.sqrt(N * 2 / 9)
    x = made.X.flatten(1).double()
    for label in range(3):
        part = x[made.y == label]
        assert bool((part.mean(0).abs() <= 5 * x.std(0) / math.sqrt(len(part))).all())
