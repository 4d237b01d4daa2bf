"""The default call on random modules against plain sampling, and the judge itself: it rejects what is wrong."""

import pickle
from dataclasses import replace

import pytest
import torch

import netgrain as ng
from netgrain.families.members import member
from netgrain.geometry.estimate import mean
from netgrain.geometry.forms import Dense
from tests import naive
from tests.judging import compared, corr_with, judge, judged, kind_of, member_rows, reacts, references, violations
from tests.random_modules import RandomModule, random_module

QUICK = (4, 9, 11)  # some of each method, cheap ones
SLOW = (0, 1, 3, 8, 10, 12, 14, 15, 20)


def test_a_module_is_a_function_of_its_number() -> None:
    for number in range(40):
        make, shape = random_module(number)
        first, same = (member(pickle.loads(pickle.dumps(m)), 3, 1) for m in (make, make))  # noqa: S301
        assert first.parts == same.parts == RandomModule(number).parts
        assert all(torch.equal(p, q) for p, q in zip(first.parameters(), same.parameters(), strict=True))
        x = torch.randn(2, *shape, requires_grad=True)
        y = first(x)
        assert y.shape[0] == 2
        assert 2 <= y.shape[1] <= 5
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 0
    assert len({RandomModule(number).parts for number in range(40)}) == 40


WORDS = (
    *("depthwise", "SE", "SE hard", "LayerScale", "class token", "positions", "attention", "fused", "token mixing"),
    *(
        "cat x",
        "inception",
        "up nearest",
        "up bilinear",
        "PixelShuffle",
        "ConvNeXt",
        "gated",
        "(pool − 1)",
        "x + relu(",
    ),
    *("max 2 pool", "max 3/2 pool", "average 2 pool", "batch", "layer", "group", "relu", "gelu", "silu", "hardswish"),
    *("in place", "sum in place", "random norms", "global flat", "first token", "x + MLP"),
)


def test_all_layers_occur() -> None:
    parts = " | ".join(part for number in range(200) for part in RandomModule(number).parts)
    assert [word for word in WORDS if word not in parts] == []


@pytest.mark.quick
@pytest.mark.parametrize("combined", [False, True])
def test_the_reference_is_a_loop_over_outputs_and_points(combined: bool) -> None:
    make, shape = random_module(9)
    probe = "gaussian:1"
    rows = member_rows(make, shape, probe, 5, combined=combined)
    torch.manual_seed(1_000_003 + 5)
    model = make().eval().double()
    points = ng.Gaussian(1).points(shape, 4, 1_000_003 - 1 - 5).double()
    plain = naive.geometry([model], points)
    if not combined:
        torch.testing.assert_close(rows.T @ rows, plain)
        return
    assert rows.shape == (4, 64)
    ratios = [  # of the same members and points, so that only the combinations differ
        float(member_rows(make, shape, probe, i, combined=True).square().sum())
        / float(member_rows(make, shape, probe, i).square().sum())
        for i in range(100)
    ]
    found = mean(ratios)
    assert abs(found.value - 1) < 4 * found.stderr < 0.4


@pytest.fixture(scope="module")
def plain() -> ng.Geometry:
    make, shape = random_module(9)
    return ng.average_geometry(make, shape, method="sampled", first_layer="never", members=128, workers=1)


@pytest.fixture(scope="module")
def nine() -> tuple[ng.Geometry, ng.Geometry]:
    """The default call and a reference for a module whose closed form is known to agree with it."""
    make, shape = random_module(9)
    (R,) = references(make, shape, "origin", most=256)
    return ng.average_geometry(make, shape), R


def test_the_judge_rejects_a_wrong_geometry(nine: tuple[ng.Geometry, ng.Geometry]) -> None:
    G, R = nine
    matrix, d = G.matrix(), G.d
    one = torch.zeros(d, d, dtype=torch.float64)
    one[0, 0] = matrix.trace() / 2

    def said(wrong: torch.Tensor) -> str:
        corr, ratio, members = compared(ng.Geometry.from_matrix(wrong, G.input_shape), iter([R]))
        assert members == 256
        return "; ".join(violations(corr, ratio))

    assert said(matrix) == ""
    assert said(1.05 * matrix) == ""  # within ten per cent
    assert said(1.2 * matrix).startswith("trace 1.2")
    assert said(matrix / 2 + one).startswith("Corr 0.")
    assert "not defined" in said(0 * matrix)


def test_the_judge_accepts_another_plain_sample(nine: tuple[ng.Geometry, ng.Geometry], plain: ng.Geometry) -> None:
    corr, ratio, _ = compared(plain, iter([nine[1]]))
    assert violations(corr, ratio) == ()
    assert abs(corr.value - 1) < 4 * corr.stderr
    assert 0 < corr.stderr < 0.02
    assert kind_of(plain) == "sampled, plain"


def test_a_reference_grows_until_it_is_good_enough(nine: tuple[ng.Geometry, ng.Geometry]) -> None:
    G, R = nine
    rough = Dense.from_pieces(G.matrix() * torch.tensor([0.5, 1.0, 1.5])[:, None, None], torch.ones(3))
    bad = ng.Geometry(rough, G.input_shape, replace(G.about, members=3))
    assert compared(G, iter([bad, R, bad]))[2] == 256  # its trace is known to 2 %, so the third is not asked for
    assert compared(G, iter([bad]))[2] == 3


def test_corr_by_products_is_corr(nine: tuple[ng.Geometry, ng.Geometry], plain: ng.Geometry) -> None:
    """Of a sampled geometry and one without noise, against rows instead of matrices; a wrong one is seen."""
    make, shape = random_module(9)
    *_, R = references(make, shape, "origin", most=128, large=True)
    for G in (nine[0], plain):
        found, whole = corr_with(G, R), ng.corr(G, R)
        assert abs(found.value - whole.value) < whole.stderr / 2
        assert 0.5 < found.stderr / whole.stderr < 2
    one = torch.zeros(64, 64, dtype=torch.float64)
    one[0, 0] = 1.0
    assert corr_with(ng.Geometry.from_matrix(one, shape), R).value < 0.5


def test_zero_is_right_only_where_nothing_reacts() -> None:
    make, shape = random_module(16)  # a product of two linear maps without shifts: no gradient at the origin
    assert reacts(make, shape, "origin") == ()
    assert "members react" in reacts(make, shape, "gaussian:1")[0]
    assert judge(16).kind == "zero"


def test_a_refusal_is_no_violation_and_a_crash_is() -> None:
    make, shape = random_module(9)

    def refuses(*_: object) -> ng.Geometry:
        raise ng.NetgrainError("no.")

    refused = judged("x", make, shape, most=1, default=refuses)
    assert (refused.kind, refused.reasons, refused.violations) == ("refused", ("no.",), ())
    crashed = judged("x", make, shape, most=1, default=lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]
    assert crashed.kind == "crashed"
    assert crashed.violations == ("crashed with ZeroDivisionError: division by zero",)


@pytest.mark.parametrize("number", QUICK)
def test_random_module(number: int) -> None:
    _holds(number, 256)


@pytest.mark.parametrize("number", SLOW)
def test_more_random_modules(number: int) -> None:
    _holds(number, 2048)


@pytest.mark.parametrize("number", [2, 18])
def test_an_activation_in_place_behind_the_stem(number: int) -> None:
    _holds(number, 256)


@pytest.mark.parametrize("number", [244, 257])
def test_norms_over_groups_of_two_and_three_channels(number: int) -> None:
    _holds(number, 512)


def _holds(number: int, most: int) -> None:
    verdict = judge(number, most=most)
    assert verdict.violations == (), verdict
    assert verdict.kind != "refused", verdict.reasons
