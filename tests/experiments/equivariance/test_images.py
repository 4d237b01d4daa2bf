"""Image, ReLU, spherical, storage and grain experiments over groups: known answers, and claims that can fail."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import netgrain as ng
from netgrain.equivariant import (
    GroupCNN,
    make_network,
    predictor,
    schatten_ratio,
    spherical_transform,
)
from netgrain.equivariant.descent import descend as descend_by_tables
from netgrain.experiments.equivariance import (
    eq_digits,
    eq_grain,
    eq_mnist,
    eq_relu,
    eq_spherical,
    eq_storage,
    fourier_descent,
    images,
    white_noise,
)
from netgrain.groups import Group, cyclic, dihedral, direct, p4m, quaternion
from netgrain.runtime.units import Outcome


def _verdicts(claims: list) -> dict[str, str]:
    return {c.name: c.verdict for c in claims}


# --- images -----------------------------------------------------------------------------------------------------------


def test_lifting_lists_the_turn_fastest_and_keeps_the_image_at_the_identity() -> None:
    x = torch.randn(3, 5, 5, dtype=torch.float64)
    f = images.lifted(x).reshape(3, 5, 5, 8)
    assert torch.equal(f[..., 0], x)
    assert torch.equal(f[..., 1], x.flip(-1))
    assert torch.equal(f[..., 2], torch.rot90(x, 1, (-2, -1)))
    assert torch.allclose(f.square().sum((1, 2, 3)), 8 * x.square().sum((1, 2)))


@pytest.mark.parametrize("kind", ["direct", "semidirect"])
def test_the_eight_turns_multiply_as_the_group_says(kind: str) -> None:
    """h·(k·x) = (hk)·x with the indices of D8, the last factor of both groups."""
    x = torch.arange(9.0).reshape(1, 3, 3)
    turned = images.lifted(x).reshape(3, 3, 8).unbind(-1)
    D8, whole = dihedral(order=8), images.image_groups(3)[kind]
    for h in range(8):
        for k in range(8):
            twice = images.lifted(turned[k][None]).reshape(3, 3, 8)[..., h]
            hk = int(D8.cayley[h, k])
            assert torch.equal(twice, turned[hk])
            assert int(whole.multiply(torch.tensor(h), torch.tensor(k))) == hk  # elements (0, 0, h)


def test_the_two_groups_differ_only_in_how_turns_move_translations() -> None:
    plain, true = images.image_groups(4).values()
    shift, turn = torch.tensor(8), torch.tensor(2)  # column + 1, and r
    assert int(plain.multiply(turn, shift)) == int(plain.multiply(shift, turn))
    assert int(true.multiply(turn, shift)) != int(true.multiply(shift, turn))


def test_digits_are_drawn_by_the_seed_and_split_into_two_labels() -> None:
    X, y = images.two_digits("digits", 8, 5, 0)
    again, _ = images.two_digits("digits", 8, 5, 0)
    other, _ = images.two_digits("digits", 8, 5, 1)
    assert X.shape == (10, 512)
    assert y.tolist() == [-1.0] * 5 + [1.0] * 5
    assert torch.equal(X, again)
    assert not torch.equal(X, other)
    assert images.two_digits("digits", 12, 2, 0)[0].shape == (4, 8 * 144)
    with pytest.raises(ng.NetgrainError, match="images of the digit 1"):
        images.two_digits("digits", 8, 10_000, 0)


# --- training in Fourier space ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", ["group-cnn", "circular", "fully-connected"])
@pytest.mark.parametrize("group", [dihedral(order=8), quaternion(), p4m(3)], ids=lambda g: g.name)
def test_steps_in_fourier_space_are_the_steps_of_the_tables(net: str, group: Group) -> None:
    n = group.order
    Z = torch.randn(4, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = fourier_descent.descend(net, group, Z, seeds=[3, 4], steps=30, noted=[0, 30], width=5)
    for member, seed in enumerate((3, 4)):
        network = make_network(group, net, 3, width=5, seed=seed)
        assert torch.allclose(found.betas[0, member], predictor(network))
        path = descend_by_tables(network.parametrisation(), network.flat_weights(), Z.numpy(), method="ngd", epochs=30)
        end = network.parametrisation().beta(path.directions[-1] * math.exp(path.log_norms[-1]))
        assert np.allclose(found.betas[1, member].numpy(), end, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("net", ["group-cnn", "fully-connected"])
def test_plain_steps_are_gradient_steps_on_the_mean_loss_of_their_batch(net: str) -> None:
    group = dihedral(order=6)
    Z = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = fourier_descent.descend(
        net, group, Z, seeds=[0], steps=3, noted=[0, 1, 2, 3], width=4, pace=fourier_descent.Pace(lr=0.05, batches=2)
    )
    network = make_network(group, net, 3, width=4, seed=0)
    for step in range(3):
        loss = (-(Z[step % 2 :: 2] @ predictor(network))).exp().mean()
        grads = torch.autograd.grad(loss, list(network.parameters()))
        with torch.no_grad():
            for w, g in zip(network.parameters(), grads, strict=True):
                w -= 0.05 * g
        assert torch.allclose(found.betas[step + 1, 0], predictor(network))


def test_the_initial_filters_are_those_of_the_network() -> None:
    group = p4m(3)
    layers = fourier_descent.initial_layers(group.order, 3, [7])
    assert torch.equal(torch.stack([w.detach().reshape(-1) for w in GroupCNN(group, 3, seed=7).weights]), layers[:, 0])


# --- epoch 0 ----------------------------------------------------------------------------------------------------------


def test_moments_of_products_of_gaussian_matrices() -> None:
    assert white_noise.product_moment(1, 3, 1 / 3) == pytest.approx(math.gamma(4 / 3) ** 3)
    for d, factors in ((2, 1), (3, 2), (4, 3)):
        assert white_noise.product_moment(d, factors, 1.0) == pytest.approx(d ** (factors + 1))
        assert white_noise.product_moment(d, factors, 0.0) == pytest.approx(d)
    rng = np.random.default_rng(0)
    for d, factors in ((2, 3), (4, 2)):
        product = np.eye(d)
        for _ in range(factors):
            G = rng.standard_normal((20_000, d, d)) + 1j * rng.standard_normal((20_000, d, d))
            product = product @ (G / math.sqrt(2))
        values = (np.linalg.svd(product, compute_uv=False) ** (2 / 3)).sum(1)
        error = values.std() / math.sqrt(len(values))
        assert abs(values.mean() - white_noise.product_moment(d, factors, 1 / 3)) < 4 * error
        assert abs(1.02 * values.mean() - white_noise.product_moment(d, factors, 1 / 3)) > 4 * error  # it can be missed


def test_sampled_moments_have_their_exact_second_moment() -> None:
    assert white_noise.sampled_moment(3, 2, 1.0, kind=1) == pytest.approx(27, rel=0.05)
    assert white_noise.sampled_moment(4, 1, 1.0, kind=-1) == pytest.approx(16, rel=0.05)
    one = 2 ** (1 / 3) * math.gamma(5 / 6) / math.sqrt(math.pi)  # E|N|^{2/3}
    assert white_noise.sampled_moment(1, 1, 1 / 3, kind=1) == pytest.approx(one, rel=0.02)


def test_the_epoch_0_levels_of_the_authors_group() -> None:
    groups = images.image_groups(28)
    assert white_noise.expected_ratio(groups["direct"], 3) == pytest.approx(289_000, rel=0.01)
    assert white_noise.expected_ratio(groups["semidirect"], 3) == pytest.approx(249_000, rel=0.01)
    assert white_noise.expected_ratio(groups["direct"], 1) == pytest.approx(410_000, rel=0.01)


def test_white_noise_on_a_large_cyclic_group_has_the_expected_ratio() -> None:
    group = cyclic(4001)
    noise = torch.randn(20, 4001, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = schatten_ratio(group, noise, 3)
    assert float(found.mean()) == pytest.approx(white_noise.expected_ratio(group, 1), rel=0.01)


# --- claims go both ways ----------------------------------------------------------------------------------------------


def _curves(fall: float, kinds: tuple[str, ...] = ("direct", "semidirect")) -> images.ImageCurves:
    """G-CNNs start at half of the others and change by `fall`; the others halve."""
    noise = 1 + 0.01 * torch.arange(5.0, dtype=torch.float64)[:, None]
    values = {}
    for net in images.NETS:
        for space in kinds if "G-CNN" not in net else [net.split(", ")[1]]:
            ends = [50.0, 50.0 * fall] if "G-CNN" in net else [100.0, 50.0]
            values[f"{net}/{space}"] = torch.tensor([ends], dtype=torch.float64) * torch.cat([noise, noise**2], 1)
        values[f"{net}/real"] = torch.tensor([[10.0, 10.0 + 5 * (1 - fall)]], dtype=torch.float64) * noise
        if net == "FC":
            values[f"{net}/real"] = torch.tensor([[10.0, 10.0]], dtype=torch.float64) * noise.flip(0)
        values[f"{net}/margin"] = values[f"{net}/accuracy"] = torch.ones(5, 2, dtype=torch.float64)
    return images.ImageCurves(torch.tensor([0, 1]), values)


def test_a_lower_level_alone_does_not_pass_for_training() -> None:
    config = eq_digits.PRESETS["smoke"]
    good = _verdicts(eq_digits.claims(eq_digits.Result(config, _curves(0.1))))
    assert good["G-CNN, direct, falls by more than FC in Fourier space"] == "holds"
    assert good["G-CNN, direct, ends below FC in Fourier space"] == "holds"
    level = _verdicts(eq_digits.claims(eq_digits.Result(config, _curves(0.9))))
    assert level["G-CNN, direct, ends below FC in Fourier space"] == "holds"
    assert level["G-CNN, direct, falls by more than FC in Fourier space"] == "fails"
    rising = _verdicts(eq_digits.claims(eq_digits.Result(config, _curves(1.5))))
    assert rising["training lowers the Fourier ratio of the G-CNN, semidirect"] == "fails"
    assert rising["G-CNN, semidirect, is wider than FC in real space"] == "fails"


def test_epoch_0_claims_and_the_stand_in_are_told() -> None:
    expected = {"G-CNN, direct": 288_000.0, "G-CNN, semidirect": 248_000.0, "FC": 409_500.0}

    def judged(factor: float, source: str) -> list:
        spread = torch.tensor([0.999, 1.0, 1.001], dtype=torch.float64)
        start = {n: factor * v * spread for n, v in expected.items()}
        trainings = {eq_mnist.SUM: _curves(0.1), "normalised": _curves(0.1)}
        return eq_mnist.claims(eq_mnist.Result(eq_mnist.PRESETS["laptop"], source, start, expected, trainings))

    right, wrong = _verdicts(judged(1.0, "mnist")), _verdicts(judged(1.1, "mnist"))
    assert right["epoch 0 of FC is as predicted"] == right["the direct product is the authors' group"] == "holds"
    assert wrong["epoch 0 of FC is as predicted"] == wrong["the direct product is the authors' group"] == "fails"
    assert right["G-CNN, direct changes as in the authors' plot (authors' rates, summed loss)"] == "fails"  # by −2.3
    assert any("stand in" in c.note for c in judged(1.0, "digits"))
    assert not any("stand in" in c.note for c in judged(1.0, "mnist"))


def test_mnist_is_looked_for_only_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused() -> bool:
        raise AssertionError("looked for MNIST")

    monkeypatch.setattr(eq_mnist, "mnist_is_here", refused)
    assert eq_mnist._source({"look_for_mnist": False}).numbers == {"source": "digits"}
    monkeypatch.setattr(eq_mnist, "mnist_is_here", lambda: True)
    assert eq_mnist._source({"look_for_mnist": True}).numbers == {"source": "mnist"}
    monkeypatch.setenv("NETGRAIN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not images.mnist_is_here()


def test_relu_claims_count_the_dead_and_can_fail() -> None:
    def result(end: float, dead: float) -> eq_relu.Result:
        noise = torch.linspace(0.99, 1.01, 5, dtype=torch.float64)[:, None]
        fourier = {n: torch.tensor([[200.0, 200.0 if n != "G-CNN" else end]]).double() * noise for n in eq_relu.NETS}
        fourier["G-CNN"] = fourier["G-CNN"] * torch.cat([noise, noise**2], 1)
        shares = {n: torch.tensor([[0.0, dead]]).double() + 0 * noise for n in eq_relu.NETS}
        training = eq_relu.Run(torch.tensor([0, 1]), fourier, fourier, shares, shares)
        return eq_relu.Result(replace(eq_relu.PRESETS["smoke"], seeds=5), {"SGD": training})

    low, high = _verdicts(eq_relu.claims(result(100, 0.0))), _verdicts(eq_relu.claims(result(300, 0.5)))
    for name in ("falls by more than the FC", "ends below the CNN"):
        assert low[f"the ReLU G-CNN {name} (SGD)"] == "holds"
        assert high[f"the ReLU G-CNN {name} (SGD)"] == "fails"
    assert low["few samples of the ReLU G-CNN die (SGD)"] == "holds"
    assert high["few samples of the ReLU G-CNN die (SGD)"] == "fails"


def test_recorded_steps_are_those_of_train() -> None:
    unit = {"net": "group-cnn", "method": "ngd", "lr": 0.0, "epochs": 250, "seed": 0}
    arrays = eq_relu._one(unit).arrays
    assert len(arrays["steps"]) == len(arrays["fourier"])
    assert arrays["steps"][0] == 0
    assert arrays["steps"][-1] == 250


# --- spherical --------------------------------------------------------------------------------------------------------


def test_the_part_of_the_spectrum_that_the_authors_see() -> None:
    assert spherical_transform(3).n == eq_spherical.SEEN
    low = torch.zeros(165, dtype=torch.float64)
    low[: eq_spherical.SEEN] = 1.0
    blocks = spherical_transform(5).blocks(low)
    assert [bool(b.any()) for b in blocks] == [True, True, True, False, False]


def test_spherical_claims_fail_without_certificates() -> None:
    numbers = eq_spherical._limits({"bandwidth": 2, "points": 3, "log_norm": 200.0, "seed": 0}).numbers
    relu = {net: torch.tensor([[2.0, 1.0 if net == "spherical" else 2.0]]).double() for net in ("spherical", "FC")}
    config = replace(eq_spherical.PRESETS["smoke"], bandwidth=2)

    def judged(rows: list[dict]) -> dict[str, str]:
        many = {n: v.repeat(len(rows), 1) for n, v in relu.items()}
        return _verdicts(eq_spherical.claims(eq_spherical.Result(config, rows, many, {"spherical": 0.0, "FC": 0.0})))

    assert numbers["gap 2"] < 1e-4
    good = judged([numbers] * 3)
    assert good["depth 2 ends at the optimum"] == good["depth 3 ends at a stationary point"] == "holds"
    bad = judged([{**numbers, "gap 2": 0.1, "kkt 3": 0.1, "rank 3": numbers["rank 2"] + 5}] * 3)
    assert bad["depth 2 ends at the optimum"] == bad["depth 3 ends at a stationary point"] == "fails"
    assert bad["rank falls with depth"] == "fails"


# --- storage ----------------------------------------------------------------------------------------------------------


def test_cutting_in_fourier_space_by_hand() -> None:
    group = dihedral(order=8)
    delta = torch.eye(8, dtype=torch.float64)[0]  # every block is the identity: d σ² is 1 for d = 1, and 2 for d = 2
    cost, cut = eq_storage.cut_in_fourier(group, delta)
    assert cost.tolist() == [4 * 4 + 2, min(4 * (4 + 4) + 2 * 5, 32)]  # the 2×2 block whole; then everything
    assert torch.allclose(cut[-1], delta)
    assert torch.allclose(cut[0], group.irreps[4].character.real / 4)  # (1/8) · 2 · χ


@pytest.mark.parametrize(
    "group", [dihedral(order=60), p4m(4), direct(cyclic(5), dihedral(order=6))], ids=lambda g: g.name
)
def test_cuts_stay_real_grow_nearer_and_end_at_the_whole(group: Group) -> None:
    beta = torch.randn(group.order, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for cost, cut in (eq_storage.cut_in_fourier(group, beta), eq_storage.cut_in_real_space(beta)):
        error = torch.linalg.vector_norm(cut - beta, dim=1)
        assert (error.diff() < 1e-9).all()
        assert error[-1] < 1e-9
        assert (cost.diff() >= 0).all()
        assert cost[-1] == 4 * group.order
        # what was cut away is orthogonal to what was kept: the pair of a complex irrep was not torn apart
        assert torch.allclose((cut * (beta - cut)).sum(1), torch.zeros(len(cut), dtype=torch.float64), atol=1e-9)


def test_a_rank_one_block_costs_two_vectors() -> None:
    group = dihedral(order=8)
    block = group.fourier(torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).blocks[4]
    U, values, Vh = torch.linalg.svd(block)
    stacks = [torch.zeros(d, d, dtype=torch.complex128) for d in group.dimensions]
    stacks[4] = values[0] * torch.outer(U[:, 0], Vh[0])  # of a real function again
    beta = group.inverse_fourier(stacks, real=True)
    cost, cut = eq_storage.cut_in_fourier(group, beta)
    assert cost.tolist() == [4 * 4 + 2]
    assert torch.allclose(cut[0], beta)


def test_storage_claims_can_fail() -> None:
    def case(first: float) -> eq_storage.Case:
        curves = {w: torch.ones(3, 2, dtype=torch.float64) for w in eq_storage.WAYS}
        needed = {w: [100.0, 101.0, 102.0] for w in eq_storage.WAYS} | {eq_storage.WAYS[0]: [first, 1.1 * first, first]}
        return eq_storage.Case(torch.tensor([10.0, 100.0]), curves, curves, {}, needed)

    for first, verdict in ((20.0, "holds"), (230.0, "fails")):
        result = eq_storage.Result(eq_storage.PRESETS["smoke"], {"D60": case(first)})
        assert set(_verdicts(eq_storage.claims(result)).values()) == {verdict}


# --- grain ------------------------------------------------------------------------------------------------------------


def test_the_geometry_of_predictors_is_the_geometry_of_their_networks() -> None:
    group = dihedral(order=8)
    nets = [GroupCNN(group, 3, seed=s).float() for s in range(4)]
    betas = torch.stack([predictor(n).detach().double() for n in nets])
    probe = ng.Data(torch.randn(2, 8))
    ours, theirs = eq_grain.geometry(betas), ng.geometry_of([n.eval() for n in nets], probe)
    assert torch.allclose(ours.matrix(), theirs.matrix(), atol=1e-6)
    assert ours.effective_rank.value == pytest.approx(theirs.effective_rank.value, rel=1e-4)


def test_white_filters_have_no_grain_and_one_predictor_has_nothing_else() -> None:
    group = dihedral(order=12)
    layers = fourier_descent.initial_layers(12, 3, range(400))
    start = fourier_descent.descend_in_fourier(group, layers, layers[0, :1], steps=0, noted=[0]).betas[0]
    found = ng.corr(eq_grain.geometry(start), torch.eye(12))
    assert abs(found.value - 1) < 4 * found.stderr + 0.01
    same = eq_grain.geometry(start[:1].repeat(10, 1))
    assert same.effective_rank.value == pytest.approx(1)
    assert ng.corr(same, torch.eye(12)).value == pytest.approx(1 / math.sqrt(12))


def test_grain_claims_can_fail() -> None:
    def result(identity: float, rank: float, aligned: float) -> eq_grain.Result:
        noise = torch.linspace(0.999, 1.001, 4, dtype=torch.float64)[:, None]

        def curves(start: float, end: float) -> dict[int, torch.Tensor]:
            row = torch.tensor([[start, end]], dtype=torch.float64)
            return {L: row * torch.cat([noise, noise**2], 1) for L in eq_grain.DEPTHS}

        spectra = {L: torch.ones(4, 60, dtype=torch.float64) / 60 for L in eq_grain.DEPTHS}
        parts = curves(1.0, identity), curves(60, rank), curves(1 / 60, aligned)
        limits = {2: [1 / rank] * 2 + [0.999 / rank], 3: [0.5, 0.51, 0.52]}
        return eq_grain.Result(eq_grain.PRESETS["smoke"], torch.tensor([0, 1]), *parts, spectra, spectra, limits)

    trained, nothing = (_verdicts(eq_grain.claims(result(*v))) for v in ((0.13, 1.001, 0.9), (1.0, 70.0, 1 / 60)))
    for name in ("training gives a grain, depth 2", "the effective rank falls, depth 3"):
        assert trained[name] == "holds"
        assert nothing[name] == "fails"
    assert trained["at depth 2 every start has the same limit"] == "holds"
    assert nothing["at depth 2 every start has the same limit"] == "fails"
    assert trained["at depth 3 starts end in different places"] == "holds"
    assert nothing["the geometry turns to the data's limit predictor, depth 2"] == "fails"


def test_agreement_of_limits_by_hand() -> None:
    basis = torch.eye(3, dtype=torch.float64)
    assert eq_grain.agreement(basis) == 0
    assert eq_grain.agreement(torch.stack([basis[0], -3 * basis[0], basis[1]])) == pytest.approx(1 / 3)
    half = torch.stack([basis[0], basis[0] + basis[1]])
    assert eq_grain.agreement(half) == pytest.approx(0.5)


def test_members_of_different_data_sets_are_different_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[range] = []

    def noted(n: int, depth: int, seeds: range) -> torch.Tensor:
        asked.append(seeds)
        return torch.stack([torch.stack([torch.randn(n, dtype=torch.float64) for _ in seeds]) for _ in range(depth)])

    monkeypatch.setattr(eq_grain, "initial_layers", noted)
    for seed in range(2):
        unit = {"members": 4, "steps": 1, "records": 2, "depth": 2, "seed": seed, "log_norm": 6.0}
        assert isinstance(eq_grain._one(unit), Outcome)
    assert not set(asked[0]) & set(asked[1])
