"""Changes of layers: pools, strides, kernels, padding, activations, norms and initial weights.

Every function takes what is known about a network and gives candidates, None for one that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from torch import nn

from netgrain.auditing.edits import Edit, another_kernel, followed, he_weights, preceded, replaced, reset, scaled
from netgrain.auditing.known_network import Candidate, Known, layer_change, listed, option_change
from netgrain.models.vit import ViT

WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}
ACTIVATION_MODULES = (
    *(nn.ReLU, nn.GELU, nn.Tanh, nn.ELU, nn.Sigmoid, nn.SiLU, nn.LeakyReLU, nn.Softplus, nn.SELU, nn.CELU, nn.ReLU6),
    *(nn.Hardswish, nn.Mish, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.LogSigmoid, nn.Tanhshrink),
)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d)


def pools(known: Known) -> Iterator[Candidate]:
    """The largest value of a window in place of its mean, and the other way round."""
    for dims in (1, 2, 3):
        average, largest = getattr(nn, f"AvgPool{dims}d"), getattr(nn, f"MaxPool{dims}d")
        for old, new, says in ((average, largest, "max"), (largest, average, "average")):
            if there := known.of(old):
                edits: dict[str, Edit] = {
                    p.name: partial(
                        replaced,
                        make=partial(new, p.module.kernel_size, stride=p.module.stride, padding=p.module.padding),
                    )
                    for p in there
                }
                yield layer_change(
                    known,
                    "pool",
                    f"{says} pooling",
                    f"replace {listed(there)} by {new.__name__}({there[0].module.kernel_size})",
                    edits,
                )
        fixed_average, fixed_largest = getattr(nn, f"AdaptiveAvgPool{dims}d"), getattr(nn, f"AdaptiveMaxPool{dims}d")
        if there := known.of(fixed_average):
            edits = {p.name: partial(replaced, make=partial(fixed_largest, p.module.output_size)) for p in there}
            yield layer_change(
                known,
                "pool",
                "global max pooling",
                f"replace {listed(there)} by {fixed_largest.__name__}({there[0].module.output_size})",
                edits,
            )
            edits = {p.name: partial(replaced, make=partial(fixed_average, 2)) for p in there}
            yield layer_change(
                known,
                "pool",
                "a grid of two in each direction instead of a global mean",
                f"replace {listed(there)} by {fixed_average.__name__}(2)",
                edits,
            )


def readouts(known: Known) -> Iterator[Candidate]:
    """A mean or a maximum over all positions where maps are flattened."""
    seen = False
    for p in known.places:
        if seen and isinstance(p.module, nn.Flatten) and len(p.before) in (2, 3) and max(p.before[1:]) > 1:
            dims = len(p.before) - 1
            for word, says in (("Avg", "mean"), ("Max", "maximum")):
                pool = getattr(nn, f"Adaptive{word}Pool{dims}d")
                yield layer_change(
                    known,
                    "pool",
                    f"{says} over all positions before the linear layers",
                    f"put {pool.__name__}(1) before '{p.name}'",
                    {p.name: partial(preceded, by=partial(pool, 1))},
                )
            return
        seen = seen or isinstance(p.module, CONVOLUTIONS)


def strides(known: Known) -> Iterator[Candidate]:
    """The first convolution with a stride without it; the first pool left out."""
    strided = [p for p in known.of(*CONVOLUTIONS) if max(p.module.stride) > 1]
    if strided:
        p = strided[0]
        for stride in sorted({1, max(1, max(p.module.stride) // 2)}):
            ones = (stride,) * len(p.module.stride)
            says = "no stride" if stride == 1 else f"stride {stride}"
            yield layer_change(
                known,
                "stride",
                f"{says} in the first strided convolution",
                f"give '{p.name}' stride={stride}",
                {p.name: partial(reset, stride=ones)},
            )
    pooled = [
        p
        for p in known.places
        if type(p.module).__name__[:7] in ("AvgPool", "MaxPool") and p.before != p.after and len(p.before) > 1
    ]
    if pooled:
        p = pooled[0]
        yield layer_change(
            known,
            "stride",
            "without the first pool",
            f"replace '{p.name}' by Identity()",
            {p.name: partial(replaced, make=nn.Identity)},
        )


def kernels(known: Known) -> Iterator[Candidate]:
    """The first convolution with a kernel that is larger or smaller by two, and the same positions where it can."""
    for p in known.of(*CONVOLUTIONS)[:1]:
        conv = p.module
        if isinstance(conv.padding, str) or conv.kernel_size == conv.stride:
            continue
        for step in (2, -2):
            kernel = tuple(k + step for k in conv.kernel_size)
            padding = tuple(max(0, q + step // 2) for q in conv.padding)
            if min(kernel) < 1:
                continue
            edit = partial(another_kernel, kernel=kernel, padding=padding)
            yield layer_change(
                known,
                "kernel",
                f"kernels of {kernel[0]} in the first convolution",
                f"give '{p.name}' kernel_size={kernel[0]}, padding={padding[0]}",
                {p.name: edit},
            )


def paddings(known: Known) -> Iterator[Candidate]:
    """Zeros around maps, so that convolutions keep the border; circular where they have zeros."""
    there = [p for p in known.of(*CONVOLUTIONS) if p.module.padding_mode == "zeros"]
    there = [p for p in there if not isinstance(p.module.padding, str)]
    bare = [p for p in there if max(p.module.kernel_size) > 1 and max(p.module.padding) == 0]
    bare = [p for p in bare if p.module.kernel_size != p.module.stride]
    if bare:
        edits: dict[str, Edit] = {
            p.name: partial(reset, padding=tuple(k // 2 for k in p.module.kernel_size)) for p in bare
        }
        action = f"give {listed(bare)} padding={bare[0].module.kernel_size[0] // 2}"
        yield layer_change(known, "padding", "zeros around the maps", action, edits)


def activations(known: Known) -> Iterator[Candidate]:
    """Another activation everywhere."""
    there = known.of(*ACTIVATION_MODULES)
    present = {type(p.module) for p in there}
    if not there:
        return
    for name, kind in ACTIVATIONS.items():
        if present == {kind}:
            continue
        edits: dict[str, Edit] = {p.name: partial(replaced, make=kind) for p in there}
        yield layer_change(
            known, "activation", f"{name} as activation", f"replace {listed(there)} by {kind.__name__}()", edits
        )


def norms(known: Known) -> Iterator[Candidate]:
    """Norms where there are none; others, or none, where there are some."""
    if known.builtin is not None and "norm" in known.options:
        for name in ("batch", "layer", None):
            if name != known.options["norm"] and not (known.builtin is ViT and name == "batch"):
                yield option_change(known, "norm", f"{name or 'no'} norm", norm=name)
        return
    if there := known.of(*NORMS):
        edits: dict[str, Edit] = {p.name: partial(replaced, make=nn.Identity) for p in there}
        yield layer_change(known, "norm", "no norm", f"leave out {listed(there)}", edits)
        return
    if known.of(nn.LayerNorm):
        return
    inner = known.of(*WEIGHTED)[:-1]
    edits = {p.name: partial(followed, by=_norm_of(p.module)) for p in inner}
    if edits:
        yield layer_change(known, "norm", "batch norm", f"put a batch norm behind {listed(inner)}", edits)


def _norm_of(module: nn.Module) -> Callable[[], nn.Module]:
    for dims, kind in ((1, nn.Conv1d), (2, nn.Conv2d), (3, nn.Conv3d)):
        if isinstance(module, kind):
            made: Callable[[], nn.Module] = partial(getattr(nn, f"BatchNorm{dims}d"), module.out_channels)
            return made
    assert isinstance(module, nn.Linear)
    return partial(nn.BatchNorm1d, module.out_features)


def gains(known: Known) -> Iterator[Candidate]:
    """Weights twice and half as large at the start, and He's initialisation."""
    there = known.of(*WEIGHTED)
    if not there:
        return
    inner = there[:-1] or there
    he: dict[str, Edit] = {p.name: he_weights for p in inner}
    yield layer_change(
        known,
        "initial gain",
        "weights of variance 2/inputs",
        f"start {listed(inner)} with nn.init.kaiming_normal_ and zero biases",
        he,
    )
    for factor, says in ((2.0, "twice as large"), (0.5, "half as large")):
        edits: dict[str, Edit] = {p.name: partial(scaled, factor=factor) for p in there}
        yield layer_change(
            known,
            "initial gain",
            f"initial weights {says}",
            f"multiply the initial weights of {listed(there)} by {factor:g}",
            edits,
        )
