"""The heuristics of geometric complexity, one row each: what is varied, in which training, and what should follow.

Unless a row says otherwise a ReLU perceptron 64-64-64-10 is trained on 1,000 digits with cross-entropy, plain SGD and a
batch of 64. Beside it stands a small convolutional network (8 and 16 channels, average pooling) on 256 images of
CIFAR-10 at 16 × 16: cross-entropy, plain SGD at a rate of 0.2, a batch of 32, 800 steps. Its rate, steps and target
losses were chosen on seeds 100 and 101 so that networks fit their data in a second or two; its grids are those of the
perceptron, thinned out. A row that stops at a training loss compares its trainings at that loss; at fixed steps
settings that only change the speed of a training would seem to change where it leads.
"""

from __future__ import annotations

from dataclasses import replace

from netgrain.experiments.heuristics.rows import CONV_STEPS, Convolutional, Heuristic, Sweep
from netgrain.experiments.heuristics.starts import Starts

AT_ENTROPY = {"stop_at_loss": 0.02, "stop_every": 10}
AT_ERROR = {"loss": "mse", "stop_at_loss": 0.05, "stop_every": 10}
CONV_ENTROPY = {"lr": 0.2, "stop_at_loss": 0.1, "stop_every": 10}
CONV_ERROR = {"lr": 0.1, "loss": "mse", "stop_at_loss": 0.25, "stop_every": 10}
CONV_SMOOTHED = {"lr": 0.1, "label_smoothing": 0.1, "stop_at_loss": 0.65, "stop_every": 10}
ENTROPY = Sweep(
    label="cross-entropy",
    vary="lr",
    setting="learning rate",
    grid=(0.05, 0.1, 0.2, 0.5, 1.0),
    steps=2000,
    panel="Learning rate, margin-normalised",
    claim="larger steps lower complexity over squared margin",
    paper="falls (of raw complexity)",
    measure="margin_complexity",
    convolutional=Convolutional(grid=(0.05, 0.1, 0.2, 0.4, 0.8)),
)

HEURISTICS = (
    Heuristic(
        name="gc-l2",
        title="Complexity under weight decay: the larger λ in L + λ‖θ‖², the smaller the geometric complexity.",
        # Bound behind it: GC ≤ Π‖W‖² ≤ (Σ‖W‖²/L)^L.
        covers=(85, 93),
        cost=101,
        sweeps=(
            Sweep(
                label="weight decay",
                setting="λ, loss + λ‖θ‖²",
                grid=(0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
                paper_grid=(0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3),
                regularizer="L2",
                panel="L2",
                claim="weight decay lowers complexity",
                all_runs=True,
                convolutional=Convolutional(grid=(0.0, 1e-4, 3e-4, 1e-3, 3e-3)),
            ),
            Sweep(
                label="no penalty",
                network="convnet",
                vary="repeat",
                setting="number of the network",
                grid=(0, 1, 2, 3, 4),
                settings={"lr": 0.2},
                steps=CONV_STEPS,
                panel="Control: no penalty",
                claim="control: without a penalty there is no order",
                sign=0,
                paper="",
                basis="own",
            ),
        ),
    ),
    Heuristic(
        name="gc-spectral",
        title="Complexity under spectral norms: the larger λ in L + (λ/2) Σ σ_max(W)², the smaller the geometric "
        "complexity.",
        # Singular values by one step of persistent power iteration. Bound behind it: GC ≤ (smallest width)·Π σ_max².
        covers=(86, 93),
        cost=75,
        sweeps=(
            Sweep(
                label="spectral norm",
                setting="λ, loss + (λ/2) Σ σ_max²",
                grid=(0.0, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
                paper_grid=(0.0, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1),
                regularizer="SpectralNorm",
                panel="Spectral norm",
                claim="spectral norm regularisation lowers complexity",
                all_runs=True,
                convolutional=Convolutional(grid=(0.0, 1e-3, 3e-3, 1e-2, 3e-2)),
            ),
        ),
    ),
    Heuristic(
        name="gc-explicit",
        title="Complexity penalised directly: the larger λ in L + λ·GC, the smaller the geometric complexity.",
        # The penalty comes from one random sign vector a step.
        covers=(84,),
        cost=54,
        sweeps=(
            Sweep(
                label="explicit penalty",
                setting="λ, loss + λ GC",
                grid=(0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
                paper_grid=(0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3),
                regularizer="GeometricComplexity",
                panel="Explicit GC",
                claim="the explicit penalty lowers complexity",
                all_runs=True,
            ),
        ),
    ),
    Heuristic(
        name="gc-flatness",
        title="Complexity under flatness: SAM with a larger radius and a larger penalty on ‖∇L‖² give smaller "
        "geometric complexity.",
        # Both also change how fast a network fits, so trainings are compared at the same training loss; at fixed steps
        # the effect drowns. Penalties from 3 on diverge.
        covers=(87, 93),
        cost=185,
        steps=20_000,
        sweeps=(
            Sweep(
                label="SAM",
                setting="radius",
                grid=(0.0, 0.05, 0.1, 0.2, 0.3, 0.5),
                settings=AT_ENTROPY,
                regularizer="SAM",
                panel="SAM, at cross-entropy 0.02",
                claim="SAM lowers complexity at the same loss",
                convolutional=Convolutional(
                    grid=(0.0, 0.05, 0.1, 0.2, 0.3), settings=CONV_ENTROPY, panel="SAM, at cross-entropy 0.1"
                ),
            ),
            Sweep(
                label="gradient norm",
                setting="α, loss + α‖∇L‖²",
                grid=(0.0, 0.05, 0.1, 0.3, 0.6, 1.0),
                settings={"lr": 0.05, **AT_ERROR},
                regularizer="GradientNorm",
                panel="Gradient norm, at squared error 0.05",
                claim="the gradient norm penalty lowers complexity at the same loss",
                convolutional=Convolutional(  # larger penalties diverge at this rate
                    grid=(0.0, 0.01, 0.02, 0.05),
                    settings={**CONV_ENTROPY, "lr": 0.1},
                    panel="Gradient norm, at cross-entropy 0.1",
                ),
            ),
        ),
    ),
    Heuristic(
        name="gc-input-noise",
        title="Complexity under input noise: the larger σ in x + σN(0, I), the smaller the geometric complexity.",
        # For a squared error and an affine map the noise adds exactly (σ²/2)·GC to the loss. The grid begins at 0.05,
        # below which the noise only augments the data and nothing falls.
        covers=(89, 93),
        cost=55,
        sweeps=(
            Sweep(
                label="input noise",
                setting="σ",
                grid=(0.05, 0.1, 0.2, 0.3, 0.5),
                regularizer="InputNoise",
                panel="Input noise",
                claim="input noise lowers complexity",
                convolutional=Convolutional(grid=(0.05, 0.1, 0.2, 0.3, 0.5)),
            ),
        ),
    ),
    Heuristic(
        name="gc-label-noise",
        title="Complexity under label noise: the more labels are wrong in each step, the smaller the geometric "
        "complexity.",
        # The noise is drawn again in every step, so that it cannot be memorised (see gc-label-corruption for noise that
        # can).
        covers=(89, 93),
        cost=55,
        sweeps=(
            Sweep(
                label="label noise",
                setting="share of random labels in each step",
                grid=(0.0, 0.05, 0.1, 0.2, 0.3, 0.4),
                regularizer="LabelNoise",
                panel="Label noise",
                claim="label noise lowers complexity",
                all_runs=True,
                convolutional=Convolutional(grid=(0.0, 0.05, 0.1, 0.2, 0.4)),
            ),
        ),
    ),
    Heuristic(
        name="gc-label-corruption",
        title="Complexity of memorising: the more training labels are wrong once and for all, the larger the geometric "
        "complexity.",
        # The counterpart of gc-label-noise: wrong labels that stay must be interpolated, which takes steeper slopes. A
        # perceptron 64-128-128-10 on 400 digits, momentum 0.9.
        covers=(89,),
        cost=28,
        steps=20_000,
        sweeps=(
            Sweep(
                label="corruption",
                vary="corrupted",
                setting="share of labels replaced for good",
                grid=(0.0, 0.1, 0.2, 0.4, 0.7, 1.0),
                settings={"lr": 0.02, "momentum": 0.9, "batch": 32, "stop_at_loss": 0.01, "stop_every": 10},
                protocol={"samples": 400, "hidden": (128, 128)},
                panel="Label corruption (memorised)",
                claim="labels that are wrong for good raise complexity",
                sign=1,
                paper="rises (random labels)",
            ),
        ),
    ),
    Heuristic(
        name="gc-learning-rate",
        title="Complexity and the learning rate: larger steps give smaller complexity, where losses are comparable and "
        "steps large.",
        # Three protocols show it: squared error stopped at 0.05 from an initialisation 1.5 times He's, with learning
        # rates up to the edge of stability; cross-entropy with labels smoothed by 0.1; and plain cross-entropy with
        # complexity over the squared median margin. The trap is shown beside them: under plain cross-entropy for a
        # fixed number of steps raw complexity *rises*, because larger steps grow the margins faster.
        covers=(88, 91, 93),
        cost=165,
        steps=20_000,
        sweeps=(
            Sweep(
                label="squared error",
                vary="lr",
                setting="learning rate",
                grid=(0.02, 0.04, 0.08, 0.12, 0.16, 0.24),
                settings={"batch": 32, **AT_ERROR},
                protocol={"scale": 1.5},
                panel="Learning rate, at squared error 0.05",
                claim="larger steps lower complexity at the same squared error",
                convolutional=Convolutional(
                    grid=(0.05, 0.1, 0.2, 0.4), settings=CONV_ERROR, panel="Learning rate, at squared error 0.25"
                ),
            ),
            Sweep(
                label="smoothed labels",
                vary="lr",
                setting="learning rate",
                grid=(0.02, 0.05, 0.1, 0.2, 0.4),
                settings={"label_smoothing": 0.1},
                protocol={"scale": 1.5},
                steps=2000,
                panel="Learning rate, smoothed labels",
                claim="larger steps lower complexity with smoothed labels",
                convolutional=Convolutional(
                    grid=(0.05, 0.1, 0.2, 0.4, 0.8),
                    settings=CONV_SMOOTHED,
                    panel="Learning rate, smoothed labels, at loss 0.65",
                ),
            ),
            ENTROPY,
            replace(
                ENTROPY,
                panel="Learning rate, the trap: raw, cross-entropy",
                claim="at fixed steps of plain cross-entropy raw complexity rises",
                sign=1,
                paper="falls; at this protocol margins grow faster instead",
                basis="counter",
                measure="complexity",
            ),
        ),
    ),
    Heuristic(
        name="gc-batch-size",
        title="Complexity and the batch size: smaller batches give smaller geometric complexity.",
        # Two protocols: squared error stopped at 0.05, and cross-entropy with labels smoothed by 0.1 for 1,500 steps;
        # both from an initialisation 1.5 times He's.
        covers=(88, 91, 93),
        cost=120,
        steps=20_000,
        sweeps=(
            Sweep(
                label="squared error",
                vary="batch",
                setting="batch size",
                grid=(4, 8, 16, 32, 64, 128),
                paper_grid=(16, 32, 64, 128, 256, 512),
                settings=AT_ERROR,
                protocol={"scale": 1.5},
                panel="Batch size, at squared error 0.05",
                claim="larger batches raise complexity (squared error)",
                sign=1,
                paper="smaller batches lower it",
                convolutional=Convolutional(
                    grid=(4, 8, 16, 32, 64), settings=CONV_ERROR, panel="Batch size, at squared error 0.25"
                ),
            ),
            Sweep(
                label="smoothed labels",
                vary="batch",
                setting="batch size",
                grid=(4, 8, 16, 32, 64),
                paper_grid=(16, 32, 64, 128, 256, 512),
                settings={"label_smoothing": 0.1},
                protocol={"scale": 1.5},
                steps=1500,
                panel="Batch size, smoothed labels",
                claim="larger batches raise complexity (smoothed labels)",
                sign=1,
                paper="smaller batches lower it",
                convolutional=Convolutional(
                    grid=(4, 8, 16, 32, 64),
                    settings=CONV_SMOOTHED,
                    panel="Batch size, smoothed labels, at loss 0.65",
                ),
            ),
        ),
    ),
    Heuristic(
        name="gc-init",
        title="Complexity and the initialisation: smaller weights at the start give smaller complexity, at the start "
        "and at the end.",
        # At initialisation a bias-free ReLU network with L layers has complexity ∝ scale^(2L), an identity seed by
        # seed, and for each scheme the mean E GC = d · Π(σ²·width) · 2^−(L−1), exact at any width. After training on
        # 400 digits with momentum 0.9 the order is still that of the start, from 0.75 of He's scale on.
        covers=(90, 93),
        cost=40,
        steps=20_000,
        starts=Starts(
            sizes=(64, 100, 100, 10),
            scales=(0.25, 0.5, 0.75, 1.0, 1.5, 2.0),
            schemes=("he", "glorot", "lecun", "torch"),
            networks=300,
        ),
        sweeps=(
            Sweep(
                label="trainings",
                vary="scale",
                setting="scale of the weights, He = 1",
                grid=(0.75, 1.0, 1.5, 2.0, 3.0),
                settings={"lr": 0.01, "momentum": 0.9, **AT_ENTROPY},
                protocol={"samples": 400},
                panel="Initial scale, after training",
                claim="larger initial weights raise complexity after training",
                sign=1,
                paper="rises",
                convolutional=Convolutional(
                    grid=(0.75, 1.0, 1.5, 2.0),
                    settings={"lr": 0.02, "momentum": 0.9, "stop_at_loss": 0.1, "stop_every": 10},
                ),
            ),
        ),
    ),
)

EXPERIMENTS = {row.name: row.experiment() for row in HEURISTICS}
