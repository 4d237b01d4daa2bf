"""Images of the checks: standardised, smooth, and the same for the same job."""

import pytest
import torch

from netgrain import NetgrainError
from netgrain.experiments.theory.material import images, smooth
from netgrain.experiments.theory.statements import Job


@pytest.mark.quick
def test_smooth_images_are_standardised_and_their_power_falls_with_frequency() -> None:
    X = smooth(400, 2, 8, torch.Generator().manual_seed(0))
    assert X.mean((0, 2, 3)).tolist() == pytest.approx([0, 0], abs=1e-5)
    assert X.std((0, 2, 3)).tolist() == pytest.approx([1, 1], abs=1e-5)
    power = torch.fft.fft2(X).abs().square().mean((0, 1))
    # (1 + |frequency|)³: 8 times less at frequency 1, 125 at frequency 4
    assert float(power[0, 0] / power[0, 1]) == pytest.approx(8, rel=0.3)
    assert float(power[0, 0] / power[4, 0]) == pytest.approx(125, rel=0.3)


def test_a_job_has_its_own_images_and_two_labels() -> None:
    job = Job(scale="smoke", seed=0)
    found, again, other = (images(j, 40, channels=1, size=6) for j in (job, job, Job(scale="smoke", seed=1)))
    assert found.X.shape == (40, 1, 6, 6)
    assert (found.name, found.real) == ("smooth random images 6 × 6", False)
    assert set(found.y.tolist()) == {0, 1}
    assert torch.equal(found.X, again.X)
    assert torch.equal(found.y, again.y)
    assert not torch.equal(found.X, other.X)


def test_a_folder_that_is_named_must_have_the_images(tmp_path) -> None:
    with pytest.raises(NetgrainError):
        images(Job(scale="laptop", seed=0, data_dir=str(tmp_path)), 4, channels=1, size=8)
    assert not images(Job(scale="laptop", seed=0, data_dir=str(tmp_path)), 4, channels=1, size=8, real=False).real
