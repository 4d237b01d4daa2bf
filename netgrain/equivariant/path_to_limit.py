"""The gradient flow of the exponential loss in log-norm time, followed to where its direction stands still.

With Z_i = y_i x_i, margins m_i = <Z_i, β(w)> and q = softmax(−m), the gradient of the log-loss is −Σ_i q_i ∇m_i: the
flow of the exponential loss runs along the same path, only at another speed, and nothing underflows. The margin
is homogeneous of degree L, so in polar coordinates w = e^s u, |u| = 1, the time can be s itself:

    du/ds = g/<u, g> − u,    g = Σ_i q_i ∇m_i(u),    <u, g> = L Σ_i q_i m_i(u),    q = softmax(−e^{Ls} m(u)).

In s the direction converges exponentially fast, in t only like 1/log t. The inverse temperature e^{Ls} is capped at
cap/γ(u), γ = min_i m_i(u): it keeps the equation from becoming infinitely stiff and costs about 0.5/cap of the optimum.
An implicit integrator with the exact Jacobian does the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.integrate import BDF
from scipy.special import softmax

from netgrain.equivariant.parametrisation import Array, Parametrisation
from netgrain.runtime.errors import NetgrainError

LAUNCH = 5.0  # margin at which the polar coordinates take over; before it the norm need not grow
LAUNCH_GROWTH, LAUNCH_TURN = 0.25, 0.02  # an Euler step: growth of the soft margin, share of |w|
MOST_LAUNCH_STEPS, MOST_STEPS = 200_000, 50_000


@dataclass(frozen=True, eq=False)
class WeightPath:
    """Points along the way: log-norms s and unit directions u of the weights; at the end the weights q of the data."""

    log_norms: Array  # (steps,)
    directions: Array  # (steps, size)
    data_weights: Array  # (points,), a probability vector
    start: Array  # the initial weights


def log_norm_flow(
    network: Parametrisation,
    w: Array,  # initial weights
    Z: Array,  # (points, n): y_i x_i
    *,
    cap: float = 1e5,
    log_norm: float = 1e4,
    rtol: float = 1e-6,
    atol: float = 1e-9,
) -> WeightPath:
    """Follow du/ds from the weights w until log|w| has grown to `log_norm`."""
    launched = launch(network, w, Z, LAUNCH)
    norm = float(np.linalg.norm(launched))
    equation = _Equation(network, Z, cap)
    start = math.log(norm)
    solver = BDF(
        equation.velocity, start, launched / norm, max(log_norm, start + 1), rtol=rtol, atol=atol, jac=equation.jacobian
    )
    # SciPy leaves the higher differences uninitialised and subtracts them once: harmless, but for what memory may hold
    solver.D[2:] = 0.0
    times, states = [start], [solver.y.copy()]
    while solver.status == "running":
        trouble = solver.step()
        if solver.status == "failed" or len(times) > MOST_STEPS:
            raise NetgrainError(f"the flow stopped at log-norm {solver.t:.1f} ({trouble}); lower cap, now {cap:g}.")
        times.append(solver.t)
        states.append(solver.y.copy())
    directions = np.array(states)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    margins = Z @ network.beta(directions[-1])
    return WeightPath(np.array(times), directions, softmax(-equation.sharpness(times[-1], margins) * margins), w)


def launch(network: Parametrisation, w: Array, Z: Array, margin: float) -> Array:
    """Small Euler steps on the log-loss until every margin is at least `margin`."""
    w = w.copy()
    for _ in range(MOST_LAUNCH_STEPS):
        margins = Z @ network.beta(w)
        if margins.min() >= margin:
            return w
        growth = max(LAUNCH_GROWTH, LAUNCH_TURN * abs(float(margins.min())))  # data may be large
        w += step(w, softmax(-margins) @ network.gradients(w, Z), growth, LAUNCH_TURN)
    raise NetgrainError(
        f"the smallest margin is {margins.min():.3g} after {MOST_LAUNCH_STEPS} steps of descent: the initial weights "
        "are at or near a saddle, or the data are far from unit size; choose another seed or rescale the data."
    )


def step(w: Array, g: Array, growth: float, turn: float) -> Array:
    """η g, with η so that the soft margin grows by at most `growth` and w moves by at most the share `turn` of |w|."""
    size = float(np.linalg.norm(g))
    if size == 0:
        raise NetgrainError("the gradient of the loss is zero at these weights: a saddle; choose another seed.")
    moved: Array = min(growth / size**2, turn * float(np.linalg.norm(w)) / size) * g
    return moved


class _Equation:
    def __init__(self, network: Parametrisation, Z: Array, cap: float) -> None:
        self.network, self.Z, self.log_cap = network, Z, math.log(cap)

    def sharpness(self, s: float, margins: Array) -> float:
        """e^{Ls}, at most cap/γ."""
        return math.exp(min(self.network.depth * s, self.log_cap - math.log(max(margins.min(), 1e-30))))

    def velocity(self, s: float, u: Array) -> Array:
        margins = self.Z @ self.network.beta(u)
        q = softmax(-self.sharpness(s, margins) * margins)
        g = self.network.gradients(u, (q @ self.Z)[None])[0]
        found: Array = g / (self.network.depth * (q @ margins)) - u
        return found

    def jacobian(self, s: float, u: Array) -> Array:
        """d/du of g/D − u with D = L q·m: the Hessian of <Z^T q, β>, and a part of rank ≤ points from dq."""
        L = self.network.depth
        A = self.network.gradients(u, self.Z)  # (points, size)
        margins = A @ u / L
        sharp = self.sharpness(s, margins)
        q = softmax(-sharp * margins)
        exponent = -sharp * A
        if math.log(sharp) < L * s - 1e-9:  # capped: the sharpness is cap/γ(u)
            lowest = int(margins.argmin())
            exponent = exponent + (sharp / margins[lowest]) * np.outer(margins, A[lowest])
        dq = q[:, None] * (exponent - q @ exponent)  # (points, size)
        g, D = q @ A, L * float(q @ margins)
        dg = self.network.hessian(u, q @ self.Z) + A.T @ dq
        dD = L * (margins @ dq + g)
        found: Array = dg / D - np.outer(g, dD) / D**2 - np.eye(len(u))
        return found
