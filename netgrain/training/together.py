"""Members that take their steps together, stacked along a first axis."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

from netgrain.families.logits import logits_of
from netgrain.families.members import Family
from netgrain.runtime.devices import widest
from netgrain.runtime.threads import one_thread
from netgrain.training.loop import Batches, Optimizer, Watch, accuracy, all_finite, fresh, shrink
from netgrain.training.losses import batch_loss
from netgrain.training.settings import Settings, State, Trained, copied, distance


def why_not_vmapped(
    make: Family, seed: int, i: int, X: Tensor, y: Tensor, settings: Settings, device: torch.device
) -> str | None:
    """None, or why members of this family cannot take their steps together."""
    if settings.stop_every is not None:
        return "the loss over all samples is looked at (stop_every) for each member by itself"
    if settings.microbatch is not None:
        return "gradients are added up over micro-batches for each member by itself"
    model, _ = fresh(make, seed, i, device)
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats:
            return f"'{name}' ({type(module).__name__}) changes its running statistics in place, which vmap cannot do"
    few = (X[:2].to(device), y[:2].to(device))
    try:
        _Together([model], settings).gradients(*few, shared=True)
    except RuntimeError as e:
        return f"vmap does not take the model ({(str(e).strip() or 'no reason given').splitlines()[0]})"
    return None


class _Together:
    """Members stacked along a first axis: a step for all of them at once."""

    def __init__(self, models: list[nn.Module], settings: Settings) -> None:
        self.skeleton, self.loss_of = models[0], batch_loss(settings.loss, settings.label_smoothing)
        stacked, self.buffers = stack_module_state(models)
        names = [name for name, p in models[0].named_parameters() if p.requires_grad]
        self.moving = {name: stacked[name].detach() for name in names}
        self.still = {name: t.detach() for name, t in stacked.items() if name not in self.moving}

    def gradients(self, x: Tensor, t: Tensor, *, shared: bool) -> tuple[State, Tensor]:
        """(gradients, losses) of all members, on one batch or on a batch each."""

        def loss(moving: State, still: State, buffers: State, x: Tensor, t: Tensor) -> Tensor:
            outputs = functional_call(self.skeleton, {**moving, **still, **buffers}, (x,))
            return self.loss_of(logits_of(outputs, x).reshape(len(x), -1), t)

        axis = None if shared else 0
        step = vmap(grad_and_value(loss), in_dims=(0, 0, 0, axis, axis), randomness="error")
        gradients, losses = step(self.moving, self.still, self.buffers, x, t)
        return gradients, losses

    def state(self, j: int) -> State:
        return copied({name: t[j] for name, t in {**self.moving, **self.still, **self.buffers}.items()})


@one_thread()
def train_together(
    make: Family, X: Tensor, y: Tensor, settings: Settings, seed: int, numbers: list[int], device: torch.device
) -> list[Trained]:
    started = time.perf_counter()
    models = [fresh(make, seed, i, device)[0] for i in numbers]
    skeleton = models[0]
    all_of = _Together(models, settings)
    del models
    X, y = X.to(device), y.to(device)
    start = copied(all_of.moving)
    optimizer = Optimizer(settings, list(all_of.moving.values()))
    batches = [Batches(len(X), settings, seed, i) for i in numbers]
    watches = [Watch(settings, batches[0].per_epoch) for _ in numbers]
    losses = torch.zeros(len(numbers), settings.steps, dtype=widest(device), device=device)
    snapshots: list[dict[int, State]] = [{} for _ in numbers]
    done: dict[int, tuple[int, State, bool, bool]] = {}  # position → steps, state, reached, diverged
    look_often = device.type == "cpu" or settings.stop_at_loss is not None

    def snap(step: int) -> None:
        if step in settings.snapshots:
            for j in range(len(numbers)):
                if j not in done or done[j][0] == step:
                    snapshots[j][step] = all_of.state(j)

    snap(0)
    for step in range(1, settings.steps + 1):
        rows = [b.rows(step - 1) for b in batches]
        if rows[0] is None:
            gradients, now = all_of.gradients(X, y, shared=True)
        else:
            index = torch.stack([r for r in rows if r is not None]).to(device)
            gradients, now = all_of.gradients(X[index], y[index], shared=False)
        # element by element, so members do not see each other
        listed = [gradients[name] for name in all_of.moving]
        optimizer.update(listed, step - 1, _clip_factors(listed, settings.clip))
        losses[:, step - 1] = now.detach()
        last = step == settings.steps
        regular = last or step % settings.log_every == 0
        if look_often or regular:
            for j in set(range(len(numbers))) - set(done):
                bad = watches[j].first_bad(losses[j], step)
                lost = bad is not None or (regular and not all_finite([t[j] for t in all_of.moving.values()]))
                met = not lost and watches[j].met(losses[j], step)
                if lost or met or last:
                    done[j] = (step if bad is None else bad + 1, all_of.state(j), met, lost)
        snap(step)
        if len(done) == len(numbers):
            break
    seconds = (time.perf_counter() - started) / len(numbers)
    out = []
    for j, i in enumerate(numbers):
        steps, state, met, lost = done[j]
        correct = math.nan if lost or y.is_floating_point() else accuracy(skeleton, X, y, state=state)
        reached = None if settings.stop_at_loss is None else met
        kept = losses[j, :steps].cpu().double()
        far = math.nan if lost else distance({name: t[j] for name, t in start.items()}, state)
        out.append(Trained(i, state, snapshots[j], kept, steps, reached, lost, correct, seconds, "vmapped", far))
    return out


def _clip_factors(gradients: list[Tensor], clip: float | None) -> Sequence[Tensor | None]:
    """The same for each member, shaped to multiply (members, …)."""
    if clip is None:
        return [None] * len(gradients)
    norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])
    factor = shrink(torch.linalg.vector_norm(norms, dim=0), clip)
    return [factor.reshape(-1, *[1] * (g.dim() - 1)) for g in gradients]
