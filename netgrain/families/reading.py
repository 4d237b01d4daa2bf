"""One reading of a module: its steps, the laws of its weights, both ends, its calls, and what it does at the origin.

A reading is made once, at a front door, and passed on. The trace answers questions about structure, the initialisation
questions about laws; both come from a module on the meta device where its initialisation allows that. Nothing is drawn
unless a law is asked for that the initialisation program does not reveal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import nn

from netgrain.families.calls import ModuleCall, is_leaf, module_calls, watching
from netgrain.families.ends import Entry, LastLayer, entry_of, last_layer_of
from netgrain.families.initialisation import Initialisation
from netgrain.families.members import Family, forward, member, model_dtype
from netgrain.families.origin import AtOrigin, Resolved, at_origin, is_smooth, resolved
from netgrain.families.outputs import Output
from netgrain.families.probes import Probe
from netgrain.families.reasons import Reason
from netgrain.families.trace import Trace, Unsupported, record
from netgrain.families.untraced import entry_by_trying, last_layer_by_trying
from netgrain.runtime.arguments import checked_shape
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import shortage


def read(make: Family, input_shape: Sequence[int], seed: int = 0) -> Reading:
    """Description of a family of networks, for questions about its structure.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    input_shape : sequence of int
        Shape of one input without the batch axis, for example ``(1, 32, 32)``.
    seed : int, default 0
        Seed of the member that is examined, and of further random draws.

    Returns
    -------
    Reading
        Answers are computed when first asked for, and cached.

    Raises
    ------
    NetgrainError
        On first use, if `make` does not return a module or memory runs out.

    See Also
    --------
    average_geometry : The function that uses a reading.

    Examples
    --------
    A linear layer of 4 features draws its weights between ±1/√4, so their variance is 1/12.

    >>> from torch import nn
    >>> reading = read(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), (4,))
    >>> entry = reading.entry()
    >>> entry.name, entry.law.text, round(12 * entry.law.variance, 12), entry.law.error
    ('0', 'uniform in ±0.5', 1.0, 0.0)
    >>> reading.last_layer().name, reading.last_layer().symmetric
    ('2', True)
    >>> [call.kind for call in reading.calls()], reading.at_origin().kind
    (['Linear', 'Tanh', 'Linear'], 'smooth')
    """
    return Reading(make, input_shape, seed)


class Reading:
    """One description of a family of networks, built by `read`.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    input_shape : sequence of int
        Shape of one input without the batch axis.
    seed : int, default 0
        Seed of member 0 and of further random draws.

    See Also
    --------
    read : Build one.

    Examples
    --------
    >>> from torch import nn
    >>> Reading(lambda: nn.Linear(64, 10), (64,)).initialisation.of("weight").text
    'uniform in ±0.125'
    """

    def __init__(self, make: Family, input_shape: Sequence[int], seed: int = 0) -> None:
        self.make, self.input_shape, self.seed = make, checked_shape(input_shape), seed
        self._origins: dict[object, AtOrigin] = {}

    @cached_property
    def initialisation(self) -> Initialisation:
        """Distributions of all parameters and buffers, as in ``initialisation.of("conv1.weight")``."""
        return Initialisation(self.make, seed=self.seed)

    @property
    def model(self) -> nn.Module:
        """A frozen module of the family; its tensors are on meta where that is possible."""
        return self.initialisation.model

    @cached_property
    def member(self) -> nn.Module:
        """Member 0 of the family, with real weights."""
        return member(self.make, self.seed, 0)

    @cached_property
    def trace(self) -> Trace | Reason:
        """All steps of the module, recorded on two inputs; a Reason if it cannot be traced."""
        dtype = torch.float32 if self.initialisation.on_meta else model_dtype(self.model)
        try:
            return record(self.model, torch.zeros(2, *self.input_shape, dtype=dtype), outputs=False)
        except Unsupported as e:
            if short := _out_of_memory(e):
                raise NetgrainError(short) from e
            return Reason("not traced", "", str(e))

    @property
    def remark(self) -> str:
        """Which of several outputs were taken, once the module was traced; else empty."""
        trace = self.__dict__.get("trace")
        return trace.remark if isinstance(trace, Trace) else ""

    def traced(self) -> Trace:
        """All steps of the module, recorded on two inputs.

        Returns
        -------
        Trace
            The same as `trace`, but an error instead of a Reason.

        Raises
        ------
        NetgrainError
            If the module cannot be traced (its subclass ``Unsupported``).
        """
        if isinstance(self.trace, Reason):
            raise Unsupported(self.trace.text)
        return self.trace

    def entry(self) -> Entry | Reason:
        """The one layer through which x enters, or why there is none.

        Returns
        -------
        Entry or Reason
            Name, coordinates and weight distribution of the layer. If a module cannot be traced, netgrain tests member
            0 numerically.

        Examples
        --------
        >>> from torch import nn
        >>> print(read(lambda: nn.Sequential(nn.Tanh(), nn.Linear(4, 1)), (4,)).entry())
        x does not enter through a Linear or Conv layer as it is ('0' (Tanh) comes first)
        """
        return self._entry

    @cached_property
    def _entry(self) -> Entry | Reason:
        if isinstance(self.trace, Reason):
            return entry_by_trying(self.member, self.input_shape, self.initialisation)
        return entry_of(self.trace, self.model, self.initialisation)

    def last_layer(self) -> LastLayer | Reason:
        """The last linear layer, if outputs are linear in its weights, or a reason.

        Returns
        -------
        LastLayer or Reason
            Its ``symmetric`` tells whether weights ω and −ω are equally likely.

        Examples
        --------
        >>> from torch import nn
        >>> print(read(lambda: nn.Sequential(nn.Linear(4, 2), nn.Softmax(1)), (4,)).last_layer())
        the output is not linear in the weight of '0' ('1' (Softmax) follows)
        """
        return self._last_layer

    @cached_property
    def _last_layer(self) -> LastLayer | Reason:
        if isinstance(self.trace, Reason):
            return last_layer_by_trying(self.member, self.input_shape, self.initialisation)
        return last_layer_of(self.trace, self.model, self.initialisation)

    def calls(self) -> tuple[ModuleCall, ...]:
        """Calls of modules that have no modules inside, in order, repeated ones included.

        Returns
        -------
        tuple of ModuleCall
            One for each call in a forward pass.

        Examples
        --------
        >>> from torch import nn
        >>> def make():
        ...     act = nn.Tanh()
        ...     return nn.Sequential(nn.Linear(2, 2), act, nn.Linear(2, 2), act)
        >>> [(call.name, call.nth, call.times) for call in read(make, (2,)).calls()]
        [('0', 0, 1), ('1', 0, 2), ('2', 0, 1), ('1', 1, 2)]
        """
        if isinstance(self.trace, Reason):
            return module_calls(self._called)
        return module_calls(self.trace.calls)

    @cached_property
    def _called(self) -> list[tuple[str, str]]:
        """The calls of a module that cannot be traced."""
        called: list[tuple[str, str]] = []

        def enter(name: str, module: nn.Module, _inputs: object) -> None:
            if is_leaf(module):
                called.append((name, type(module).__name__))

        x = torch.randn(2, *self.input_shape, generator=torch.Generator().manual_seed(0))
        with torch.no_grad(), watching(self.member, entering=enter):
            forward(self.member, x.to(model_dtype(self.member)))
        return called

    def at_origin(self, output: Output = "all") -> AtOrigin:
        """What the network does at x = 0: smooth, a kink, or a norm that sees a constant.

        Parameters
        ----------
        output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
            Outputs whose gradients count.

        Returns
        -------
        AtOrigin
            Read off the steps of the module, where it can be traced; else found on member 0 by
            differences in double precision.

        Examples
        --------
        A ReLU network without biases has a kink at the origin and is positively homogeneous.

        >>> from torch import nn
        >>> def make():
        ...     return nn.Sequential(nn.Linear(3, 9, bias=False), nn.ReLU(), nn.Linear(9, 1))
        >>> read(make, (3,)).at_origin()
        AtOrigin(kind='kink', homogeneous=True, where='')
        """
        if output not in self._origins:
            smooth = isinstance(self.trace, Trace) and is_smooth(self.trace) and not callable(output)
            self._origins[output] = AtOrigin("smooth") if smooth else at_origin(self.member, self.input_shape, output)
        return self._origins[output]

    def probe_used(self, probe: Probe | None, output: Output = "all") -> Resolved:
        """The probe actually used: at a kink, a Gaussian replaces the origin.

        Parameters
        ----------
        probe : Probe or None
            The requested probe; None takes the origin where it is defined.
        output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
            Outputs whose gradients count.

        Returns
        -------
        Resolved
            The probe, and why it differs from the requested one.

        Raises
        ------
        NetgrainError
            If the origin was asked for and has no limit.

        Examples
        --------
        >>> from torch import nn
        >>> print(read(lambda: nn.Sequential(nn.Linear(3, 9), nn.Tanh()), (3,)).probe_used(None).text)
        origin
        """
        return resolved(probe, lambda: self.at_origin(output))


def _out_of_memory(error: BaseException | None) -> str | None:
    """The sentence about memory, if running out of it is behind an error."""
    while error is not None:
        if short := shortage(error):
            return short
        error = error.__cause__
    return None
