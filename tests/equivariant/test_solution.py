"""A limit with its certificates, for every network."""

import pytest

from netgrain.equivariant import Limit, limit, schatten_ratio
from netgrain.equivariant.limits import NETS
from tests.equivariant.known_limits import D8, OPTIMA, teacher


def test_a_sharper_flow_is_nearer_to_the_optimum() -> None:
    gaps = [limit(D8, *teacher(8, 10, 0), cap=cap).objective / OPTIMA[0] - 1 for cap in (1e3, 1e4, 1e5)]
    assert gaps == pytest.approx([3.4e-4, 3.4e-5, 3.4e-6], rel=0.15)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_contract_of_every_network(net: str, depth: int) -> None:
    X, y = teacher(8, 6, 3)
    found = limit(D8, X, y, depth=depth, net=net, record_kkt=True)
    assert isinstance(found, Limit)
    assert (y * (X @ found.beta)).min().item() == pytest.approx(1)
    assert found.margin == pytest.approx(1 / found.beta.norm().item())
    assert found.kkt_residual < 1e-6
    assert found.parameter_residual < 1e-5
    assert found.balancedness == pytest.approx(1, abs=1e-6)
    assert found.lower <= found.upper
    assert (found.dual_gap is None) == (depth == 3 and net != "fully-connected")
    assert found.dual_gap is None or found.dual_gap < 1e-4
    assert found.ratio == pytest.approx(schatten_ratio(D8, found.beta, depth).item())
    path = found.trajectory
    assert path.betas.norm(dim=1).numpy() == pytest.approx(1)
    assert (path.log_norms[2:] >= path.log_norms[1:-1]).all()
    assert path.kkt_residuals is not None
    assert path.kkt_residuals[-1] == pytest.approx(found.kkt_residual, abs=1e-9)
    assert path.objectives[-1].item() == pytest.approx(found.objective)
    assert [len(v) for v in found.singular_values] == [1, 1, 1, 1, 2]
    assert net in repr(found)
    assert f"depth {depth}" in repr(found)


@pytest.mark.parametrize(("method", "gap"), [("ngd", 2e-2), ("sgd", 0.2)])
def test_slower_methods_go_the_same_way(method: str, gap: float) -> None:
    found = limit(D8, *teacher(8, 10, 0), method=method, epochs=4000)
    assert 1e-5 < found.objective / OPTIMA[0] - 1 < gap
    assert found.dual_gap is not None
    assert found.lower < OPTIMA[0] < found.upper
    assert found.objective < found.trajectory.objectives[len(found.trajectory) // 2]
