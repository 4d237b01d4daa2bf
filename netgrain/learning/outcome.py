"""What `learnability` found, as a value: the score with its error, what stands behind it, and sentences about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netgrain.geometry.estimate import Estimate
from netgrain.learning.learning_curves import GAIN, LearningCurve
from netgrain.learning.modes import ModeShares
from netgrain.learning.prediction_errors import PredictionError, track_record
from netgrain.learning.trial_gains import combined
from netgrain.learning.trials import Trial
from netgrain.runtime.snippets import snippet
from netgrain.runtime.versions import versions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAYS = {"layers": "all layers", "tangent": "the tangent kernel", "last": "the last layer"}


@dataclass(frozen=True)
class KernelScore:
    """What one kernel reads out.

    Attributes
    ----------
    score : Estimate
        With the error of the samples alone.
    explained : Estimate
        Share of the label's variance that leave-one-out explains; the larger one decides.
    members : int
        Networks behind it.
    """

    score: Estimate
    explained: Estimate
    members: int


@dataclass(frozen=True)
class GrainShare:
    """How much of the label linear rules explain by leave-one-out.

    Attributes
    ----------
    grain : Estimate
        With the kernel xᵀGz: features as strong as the family's grain makes them.
    plain : Estimate
        With the kernel xᵀz: all features alike.
    kernel : Estimate
        With the kernel that was chosen.
    """

    grain: Estimate
    plain: Estimate
    kernel: Estimate


@dataclass(frozen=True)
class LearnabilityAbout:
    """The settings behind a prediction.

    Attributes
    ----------
    model : str
        Name of the family.
    input_shape : tuple of int
        Shape of one sample.
    samples, given : int
        Samples that were used, and that were given.
    equal : int
        Samples that equal an earlier one; they were left out together.
    members : dict of str to int
        Networks behind each kernel.
    ridge : float
        Of the kernel that was chosen.
    seed : int
        Of networks, subsets and splits.
    recipe : str
        Training for which the track record holds.
    record : str
        Tasks and networks of the track record.
    notes : tuple of str
        What was done in another way than usual: kernels that were left out, or held by features.
    versions : dict of str to str
        Of netgrain, Python and PyTorch.
    """

    model: str
    input_shape: tuple[int, ...]
    samples: int
    given: int
    equal: int
    members: dict[str, int]
    ridge: float
    seed: int
    recipe: str
    record: str
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=versions)


@dataclass(frozen=True, eq=False, repr=False)
class Learnability:
    """The score that networks of a family will reach on labelled samples.

    Attributes
    ----------
    score : Estimate
        Accuracy or R², with its total error.
    error : PredictionError
        Its three parts.
    measure : str
        "accuracy" or "R²".
    chance : float
        Score of the best constant answer: the largest share of a class.
    balanced : Estimate or None
        Mean of the classes' accuracies, with the error of the samples.
    per_class : dict of str to Estimate or None
        Accuracy of each class; None for one of fewer than 5 samples.
    counts : dict of str to int
        Samples in each class.
    kernel : str
        The kernel that was chosen, with the smaller squared error.
    kernels : dict of str to KernelScore
        All kernels that were compared, by name.
    curve : LearningCurve
        Scores of subsets, and a forecast.
    shares : ModeShares
        What is learnable now, with more samples, and not at all.
    noise : Estimate
        Upper bound on the label noise.
    grain : GrainShare or None
        How much of the labels linear rules explain with and without the family's grain (the directions it favours).
    trial : Trial or None
        A short training.
    untried : str
        Why there was no trial.
    about : LearnabilityAbout
        The settings.

    See Also
    --------
    learnability : Makes this value.
    """

    score: Estimate
    error: PredictionError
    measure: str
    chance: float
    balanced: Estimate | None
    per_class: dict[str, Estimate | None]
    counts: dict[str, int]
    kernel: str
    kernels: dict[str, KernelScore]
    curve: LearningCurve
    shares: ModeShares
    noise: Estimate
    grain: GrainShare | None
    trial: Trial | None
    untried: str
    about: LearnabilityAbout

    @property
    def trial_score(self) -> Estimate | None:
        """The trial's score with its total error: samples and track record."""
        if self.trial is None:
            return None
        score = self.trial.score
        return Estimate(float(score), math.hypot(score.stderr, track_record().trial.standard), score.n)

    @property
    def combined(self) -> Estimate | None:
        """Kernel score and trial score combined; None without a trial."""
        if self.trial is None or self.trial.gain is None:
            return None
        gain, record = self.trial.gain, track_record().combined.standard
        samples = math.hypot(self.error.samples, gain.stderr)
        # where training changes much, half of the change is in doubt
        error = max(math.hypot(samples, record), abs(float(gain)) / 2)
        return Estimate(combined(float(self.score), float(self.trial.score), float(gain)), error, self.score.n)

    @property
    def features_learnt(self) -> bool:
        """Whether the trial beat the kernel by five points, beyond their errors."""
        return self.trial is not None and self.trial.learnt_features

    @property
    def warning(self) -> str | None:
        """Why the score should not be trusted; None if there is no known reason."""
        both = self.combined
        if self.trial is None or self.trial.gain is None or both is None or not self.features_learnt:
            return None
        return (
            f"features must be learnt here: a short training gains {_score(self.trial.gain)} over random networks "
            f"on the same samples; expect {self.measure} between {float(self.score):.2f} and "
            f"{min(float(both) + both.stderr, 1.0):.2f}"
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on what limits the prediction."""
        about, out = self.about, []
        if about.samples < about.given:
            out.append(f"{about.samples} of {about.given} samples were used; the curve extrapolates")
        out += about.notes
        if about.equal:
            out.append(f"{about.equal} samples equal another one; equal ones were left out together")
        few = [name for name, score in self.per_class.items() if score is None]
        if few:
            out.append(f"{len(few)} classes of fewer than 5 samples have no score of their own")
        if self.trial is not None:
            out += self.trial.remarks
            out.append(f"the trial's model error is that of {track_record().trial.source}")
        elif self.untried:
            out.append(f"no trial training: {self.untried}")
        if self.measure == "R²":
            out.append("the model error was measured on accuracies and is only a stand-in for R²")
        out.append(f"the model error is that of {about.record}")
        out += _beyond_the_record(about, self.kernel)
        out.append(f"it holds for training with {about.recipe}")
        return tuple(out)

    def rows(self) -> list[tuple[str, str]]:
        """Names and sentences, the verdict first.

        Returns
        -------
        list of (str, str)
            Rows for a table; warnings come first.
        """
        e, s = self.error, self.shares
        parts = [
            f"samples {e.samples:.3f}",
            f"members {e.members:.3f}" if e.members is not None else "",
            f"model {e.model:.3f}",
        ]
        out = [("warning", self.warning)] if self.warning else []
        out.append((f"expected {self.measure}", f"{_score(self.score)} ({', '.join(filter(None, parts))})"))
        if self.balanced is not None:
            out.append(("compared", f"balanced {_score(self.balanced)}; always the largest class {self.chance:.3f}"))
        out.append(("kernels", "; ".join(f"{SAYS[k]} {_score(v.score)}" for k, v in self.kernels.items())))
        out[-1] = ("kernels", f"{out[-1][1]}; taken: {SAYS[self.kernel]}")
        t = self.trial
        if t is not None and self.trial_score is not None and self.combined is not None:
            out.append(
                (
                    "trial training",
                    f"{_score(self.trial_score)} ({t.design}, rate {t.rate:g}, {t.steps} steps)",
                )
            )
            out.append(("both combined", _score(self.combined)))
        out.append(("more samples", self._more()))
        out.append(
            ("learnable", f"now {_share(s.now)}, with more samples {_share(s.later)}, not at all {_share(s.never)}")
        )
        out += [(f"modes {band.name}", _share(band.share)) for band in s.shown]
        if self.grain is not None:
            g = self.grain
            out.append(
                (
                    "grain",
                    f"xᵀGz explains {_share(g.grain)} of it, xᵀz {_share(g.plain)}, the kernel {_share(g.kernel)}",
                )
            )
        out.append(("label noise", f"at most {_share(self.noise)}"))
        return out

    def _more(self) -> str:
        n, enough = self.curve.sizes[-1], self.curve.enough()
        text = f"{2 * n} samples: {_score(self.curve.at(2 * n))} by the curve alone"
        if enough is None:
            return f"{text}; doubling still adds {GAIN:.0%} at 1,000 times as many"
        likely, low, high = enough
        until = "more" if high is None else f"{high:,}"
        if likely <= n:
            return f"{text}; doubling adds less than {GAIN:.0%} already"
        return f"{text}; doubling adds less than {GAIN:.0%} from {likely:,} on (between {low:,} and {until})"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            Every number with its error.
        """
        a, s, t = self.about, self.shares, self.trial
        return {
            "model": a.model,
            "measure": self.measure,
            "score": self.score.as_dict(),
            "error": {"samples": self.error.samples, "members": self.error.members, "model": self.error.model},
            "chance": self.chance,
            "balanced": _plain(self.balanced),
            "per_class": {name: _plain(score) for name, score in self.per_class.items()},
            "counts": self.counts,
            "kernel": self.kernel,
            "kernels": {
                k: {"score": v.score.as_dict(), "explained": v.explained.as_dict(), "members": v.members}
                for k, v in self.kernels.items()
            },
            "curve": {
                "samples": list(self.curve.sizes),
                "scores": [score.as_dict() for score in self.curve.scores],
                "twice": self.curve.at(2 * self.curve.sizes[-1]).as_dict(),
                "enough": self.curve.enough(),
            },
            "shares": {
                **{name: getattr(s, name).as_dict() for name in ("now", "later", "never")},
                "bands": [{"modes": [b.first, b.last], "share": b.share.as_dict()} for b in s.shown],
            },
            "label_noise_at_most": self.noise.as_dict(),
            "grain": None
            if self.grain is None
            else {name: getattr(self.grain, name).as_dict() for name in ("grain", "plain", "kernel")},
            "trial": None
            if t is None
            else {
                "score": _plain(self.trial_score),
                "design": t.design,
                "rate": t.rate,
                "rates": {f"{rate:g}": score for rate, score in t.rates.items()},
                "steps": t.steps,
                "trained_on": t.trained_on,
                "train_score": t.train_score,
                "gain": _plain(t.gain),
            },
            "combined": _plain(self.combined),
            "warning": self.warning,
            "remarks": list(self.remarks),
            "settings": {
                "input_shape": list(a.input_shape),
                "samples": a.samples,
                "given": a.given,
                "equal": a.equal,
                "members": a.members,
                "ridge": a.ridge,
                "seed": a.seed,
                "recipe": a.recipe,
                "record": a.record,
                "versions": a.versions,
            },
        }

    def plot(self) -> Figure:
        """The learning curve with its band, next to the shares of the label.

        Returns
        -------
        matplotlib.figure.Figure
            A new figure.
        """
        from netgrain.learning.plots import picture

        return picture(self)

    def plot_curve(self, ax: Axes | None = None) -> Axes:
        """The learning curve alone.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from netgrain.learning.plots import curve

        return curve(self, ax)

    def __repr__(self) -> str:
        facts = [f"{self.about.model}, {self.measure} {_score(self.score)}", f"chance {self.chance:.3g}"]
        facts.append(f"{SAYS[self.kernel]}, {self.about.samples} samples")
        if self.features_learnt:
            facts.append("features must be learnt here")
        return f"Learnability({', '.join(facts)})"

    def _repr_html_(self) -> str:
        return snippet(self.about.model, [*self.rows(), *(("note", text) for text in self.remarks)])


def _beyond_the_record(about: LearnabilityAbout, kernel: str) -> list[str]:
    """How these settings differ from those for which the model error was measured."""
    out, usual, size = [], track_record().members[kernel], track_record().image_size
    members = about.members[kernel]
    if 1 < members < usual:
        out.append(f"{members} random networks were used for their cost, and the model error was measured with {usual}")
    if len(about.input_shape) == 3 and max(about.input_shape[1:]) > size:
        shape = " × ".join(map(str, about.input_shape[1:]))
        out.append(f"images are {shape}, and the model error was measured at {size} × {size}")
    return out


def _score(score: Estimate) -> str:
    return f"{float(score):.3f} ± {score.stderr:.3f}"


def _share(share: Estimate) -> str:
    return f"{100 * float(share):.0f} ± {100 * share.stderr:.0f}%"


def _plain(score: Estimate | None) -> dict[str, Any] | None:
    return None if score is None else score.as_dict()
