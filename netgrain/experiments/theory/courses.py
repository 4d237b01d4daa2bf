"""Members on their way through training, each beside its twin with the opposite last layer, and Gᵗ measured there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from netgrain.experiments.theory import statements
from netgrain.experiments.theory.material import Images, images
from netgrain.experiments.theory.networks import CHANNELS, PROBES, family, geometry, samples, shape, side
from netgrain.experiments.theory.statements import Job
from netgrain.families.gradients import gradients
from netgrain.families.members import Family, member
from netgrain.families.probes import Gaussian
from netgrain.geometry.correlation import Deletions
from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Factored
from netgrain.geometry.value import Geometry
from netgrain.runtime.devices import best_device
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

RATE = 0.1  # of figure 2, with momentum 0.9, in one full batch
CLIP = 5.0  # of the gradient's norm; the text is silent, the authors' code has it, and a rate that falls to zero
FEWEST = 3  # pairs that must be left
DIFFERENCE = ("diff", 0, 1)  # of the two logits
TINY = 1e-2  # of the first step: the change at first order


@dataclass(frozen=True, eq=False)
class Course:
    """One network trained on one training set, again and again from fresh weights."""

    G: Geometry  # at initialisation, well known
    P: Geometry  # G S G
    data: Images
    steps: list[int]
    rows: Tensor  # ∇ₓf (pairs, snapshots, 2 · probes, d) float32: a member and its twin are one part
    losses: tuple[float, float]  # mean logistic loss at the start and at the end
    fitted: float  # share of training samples that are classified rightly at the end

    def corr(self, t: int) -> Deletions:
        """Corr(Gᵗ, GSG) at a snapshot."""
        return corr_with(self.rows[:, t], self.P)


def training_images(job: Job, repeat: int = 0) -> Images:
    return images(replace(job, seed=job.seed + repeat), samples(job), channels=CHANNELS, size=side(job))


def snapshots(job: Job, name: str) -> list[int]:
    """Numbers of steps after which Gᵗ is measured."""
    if not job.laptop:
        return [0, 1, 3]
    if job.paper:
        return list(range(101))
    return [*range(9), 10, 12, 14, 16, 18, 20, 25, 30]


def pairs(job: Job, name: str) -> int:
    """Pairs of twins in one training set."""
    return job.pick(4, {"MLP": 12, "LeNet": 12, "ResNet18": 4, "ViT": 4}[name], 13)


@lru_cache(maxsize=32)
def course(job: Job, name: str, repeat: int = 0) -> Course:
    """Full-batch gradient descent with momentum 0.9 on the mean logistic loss, on the training set of this number."""
    data, make = training_images(job, repeat), family(name, job, outputs=2)
    G = geometry(name, job)
    steps = snapshots(job, name)
    settings = Settings(
        lr=RATE, momentum=0.9, batch=None, clip=CLIP, decay="linear", steps=steps[-1], snapshots=tuple(steps)
    )
    seed = derived_seed(job.seed, "course", repeat)
    count = pairs(job, name)
    rows, losses, right = followed(make, data, settings, job, seed=seed, members=count)
    return Course(G, G.project(data_covariance(data.X)), data, steps, rows, losses, right)


def followed(
    make: Family, data: Images, settings: Settings, job: Job, *, seed: int, members: int
) -> tuple[Tensor, tuple[float, float], float]:
    """Rows of every pair at every snapshot, mean losses at both ends, and the share of samples learnt at the end."""
    place = best_device() if job.paper else torch.device("cpu")
    found, ends = [], []
    model = member(make, 0, 0, place)
    for i in range(members):
        points = Gaussian().points(shape(job), PROBES, derived_seed(seed, "probe", i)).to(place)
        twins = []
        for each in (make, opposite(make)):
            trained = train_member(each, data.X, data.y, settings, seed=seed, i=i, device=place)
            if trained.diverged:
                break
            taken, looks = [], []
            for step in settings.snapshots:
                trained.load_into(model, step=step)
                taken.append(gradients(model, points, DIFFERENCE).flatten(1).float().cpu())
                if step in (settings.snapshots[0], settings.snapshots[-1]):
                    looks.append(_loss(model, data))
            twins.append((torch.stack(taken), looks))
        if len(twins) == 2:  # a pair leaves as a whole where one of it diverged
            found.append(torch.cat([rows for rows, _ in twins], 1))
            ends += [looks for _, looks in twins]
    if len(found) < FEWEST:
        raise NetgrainError(
            f"{members - len(found)} of {members} pairs diverged at rate {settings.lr:g}; try another seed."
        )
    first, last, right = (math.fsum(e[k][j] for e in ends) / len(ends) for k, j in ((0, 0), (-1, 0), (-1, 1)))
    return torch.stack(found), (first, last), right


def _loss(model: nn.Module, data: Images) -> tuple[float, float]:
    place = next(model.parameters()).device
    with torch.no_grad():
        f = torch.cat([model(x.to(place)).cpu() for x in data.X.split(256)])
    return float(nn.functional.cross_entropy(f, data.y)), float((f.argmax(1) == data.y).double().mean())


def opposite(make: Family) -> Family:
    """The family with the opposite weights (and bias) in the last layer: labels drop out of a pair at first order."""

    def turned() -> nn.Module:
        model = make()
        last = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
        with torch.no_grad():
            for p in last.parameters():
                p.neg_()
        return model

    return turned


def corr_with(rows: Tensor, target: Geometry) -> Deletions:
    """Corr(G, target) from rows (members, probes, d), over different members."""
    form = Factored.of_members(rows, 1 / rows.shape[1])
    return statements.cosine(form.pairwise(form), form.part_inner(target.form), target.form.norm2())


def first_change(job: Job, name: str, count: int) -> Estimate:
    """Change of Corr(Gᵗ, GSG) per step at first order, by finite difference on the same members."""
    data, make = training_images(job), family(name, job, outputs=2)
    P = geometry(name, job).project(data_covariance(data.X))
    settings = Settings(lr=TINY * RATE, momentum=0.0, batch=None, steps=1, snapshots=(0, 1))
    rows, _, _ = followed(make, data, settings, job, seed=derived_seed(job.seed, "first change"), members=count)
    change = statements.difference(corr_with(rows[:, 1], P), corr_with(rows[:, 0], P))
    return statements.divided(change, TINY)


def rises(found: Course) -> dict[int, Estimate]:
    """Corr(Gᵗ, GSG) minus its start on the same members, by step."""
    start = found.corr(0)
    return {step: statements.difference(found.corr(t), start) for t, step in enumerate(found.steps) if t}


def mean_loss_note(courses: Sequence[Course]) -> str:
    """What became of the loss, for a note."""
    first, last = (math.fsum(c.losses[i] for c in courses) / len(courses) for i in (0, 1))
    right = math.fsum(c.fitted for c in courses) / len(courses)
    return f"loss {first:.3f} → {last:.3f}, {right:.0%} of the training samples right at the end"
