"""Every form of a geometry obeys one contract, and equals the dense matrix it stands for."""

import pytest
import torch

from netgrain.families.convolution import ConvStem
from netgrain.geometry.forms import DENSE_LIMIT, Dense, Factored, Form
from netgrain.geometry.standardised_forms import behind_standardised
from netgrain.geometry.structured_forms import Kronecker, Spread
from netgrain.runtime.errors import NetgrainError

torch.manual_seed(0)
STEM = ConvStem((4, 5), (2, 3), (1, 2), ((1, 0), (1, 1)), (1, 1))


def _rows(n: int, r: int, s: int) -> torch.Tensor:
    return torch.randn(n, r, s, generator=torch.Generator().manual_seed(n + r + s))


def _pieces(n: int, s: int) -> torch.Tensor:
    rows = _rows(n, 3, s).double()
    return rows.mT @ rows


def forms() -> dict[str, Form]:
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    return {
        "dense": Dense.from_pieces(_pieces(5, 12), torch.tensor([2, 1, 1, 3, 1])),
        "factored": Factored.of_members(_rows(7, 2, 12), 0.7),
        "factored, one row": Factored.of_members(_rows(20, 1, 12), 2.0),
        "factored, batched": Factored.of_members(_rows(10, 2, 12)).batched(4),
        "kronecker": Kronecker(Factored.of_members(_rows(6, 3, 4)), 3, order),
        "kronecker of numbers": Kronecker(Factored.of_members(_rows(6, 3, 1)), 12, order),
        "spread": Spread(Factored.of_members(_rows(6, 2, STEM.out_size), 0.3), STEM),
        "spread in copies": Kronecker(
            Spread(Factored.of_members(_rows(6, 2, STEM.out_size)), STEM), 2, torch.arange(40).flip(0)
        ),
        "standardised": behind_standardised(
            Factored.of_members(_rows(6, 2, STEM.out_size)), STEM, 2, torch.arange(40).flip(0)
        ),
        "standardised patches": behind_standardised(Factored.of_members(_rows(6, 3, 4)), None, 3, order),
        "standardised, one channel": behind_standardised(
            Factored.of_members(_rows(6, 2, STEM.out_size)), STEM, 1, torch.arange(20)
        ),
    }


@pytest.fixture(params=list(forms()))
def form(request: pytest.FixtureRequest) -> Form:
    return forms()[request.param]


def _parts(form: Form) -> list[torch.Tensor]:
    return [form.part(i).dense() for i in range(form.parts)]


@pytest.mark.quick
def test_dense_is_the_weighted_mean_of_the_parts(form: Form) -> None:
    weights = form.counts.double() / form.counts.sum()
    mean = sum(w * p for w, p in zip(weights, _parts(form), strict=True))
    torch.testing.assert_close(form.dense(), mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(form.dense(), form.dense().T)
    assert float(torch.linalg.eigvalsh(form.dense())[0]) > -1e-5


def test_matvec_trace_and_norms_equal_the_dense_ones(form: Form) -> None:
    G = form.dense()
    V = torch.randn(3, form.size, dtype=torch.float64)
    torch.testing.assert_close(form.matvec(V), V @ G, rtol=1e-6, atol=1e-6)
    assert form.trace() == pytest.approx(float(G.trace()), rel=1e-6)
    assert form.norm2() == pytest.approx(float(G.square().sum()), rel=1e-6)
    parts = _parts(form)
    torch.testing.assert_close(form.part_traces(), torch.stack([p.trace() for p in parts]), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(form.part_norms2(), torch.stack([p.square().sum() for p in parts]), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("vectors", [3, 40])
def test_energies_are_products_from_both_sides(form: Form, vectors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    V = torch.randn(vectors, form.size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = (V @ form.dense() * V).sum(1)
    torch.testing.assert_close(form.energies(V), expected, rtol=1e-6, atol=1e-6)
    # as of large inputs: a few windows and a few rows at a time
    for name, value in {"DENSE_LIMIT": 0, "WINDOWS": 400, "ROWS": 5}.items():
        monkeypatch.setattr(f"netgrain.geometry.structured_forms.{name}", value)
    torch.testing.assert_close(form.energies(V), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(form.matvec(V), V @ form.dense(), rtol=1e-6, atol=1e-6)


def test_products_between_forms_of_every_kind(form: Form) -> None:
    for name, other in forms().items():
        if other.size != form.size:
            continue
        H = other.dense()
        assert form.inner(other) == pytest.approx(float((form.dense() * H).sum()), rel=1e-5), name
        expected = torch.stack([(p * H).sum() for p in _parts(form)])
        torch.testing.assert_close(form.part_inner(other), expected, rtol=1e-5, atol=1e-6)
        pairs = torch.stack([torch.stack([(p * q).sum() for q in _parts(other)]) for p in _parts(form)])
        torch.testing.assert_close(form.pairwise(other), pairs, rtol=1e-5, atol=1e-6)


def test_a_subset_is_the_mean_of_some_parts(form: Form) -> None:
    chosen = [0, 2, 3]
    weights = form.counts[chosen].double()
    mean = sum(w * _parts(form)[i] for w, i in zip(weights / weights.sum(), chosen, strict=True))
    torch.testing.assert_close(form.subset(chosen).dense(), mean, rtol=1e-5, atol=1e-6)


def test_batching_keeps_the_matrix_and_the_members() -> None:
    whole = Factored.of_members(_rows(10, 2, 12))
    few = whole.batched(4)
    torch.testing.assert_close(whole.dense(), few.dense())
    assert few.parts == 4
    assert int(few.counts.sum()) == 10


def test_a_matrix_that_does_not_fit_is_refused_with_the_number() -> None:
    with pytest.raises(NetgrainError, match=rf"{DENSE_LIMIT + 1} x {DENSE_LIMIT + 1} matrix would take 0.5 GiB"):
        Factored(torch.zeros(1, DENSE_LIMIT + 1)).dense()


def test_many_vectors_of_few_numbers_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors times rows would be a matrix of 26 GB for a sampled ViT's scores of a whole image set."""
    form = Factored(torch.randn(4096, 4, generator=torch.Generator().manual_seed(0)), 0.5)
    V = torch.randn(1000, 4, generator=torch.Generator().manual_seed(1))
    some = torch.cat([form.matvec(v) for v in V.split(3)])
    form.dense()

    def refused(rows: torch.Tensor) -> None:
        raise AssertionError("vectors were multiplied with rows")

    monkeypatch.setattr("netgrain.geometry.forms.in_slices", refused)
    assert torch.allclose(form.matvec(V), some, rtol=1e-10)
    with pytest.raises(AssertionError, match="multiplied with rows"):
        form.matvec(V[:2])
