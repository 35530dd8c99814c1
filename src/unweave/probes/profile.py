"""The profile of a single unit along a line: ``g(t) = c phi(s t + z) + c0``, from a few answers.

Whatever the line, a ridge function seen along it is one unit of one variable. Slope s and shift z are found
on a grid with the weights c, c0 by least squares, then refined by Levenberg-Marquardt; piecewise linear
units are read off as two straight pieces. A residual that stays above the accuracy of the answers says that
the function is not one unit of that activation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.solve.descend import Settings
from unweave.solve.fit import Fit, fit_network

NUM_REFINED = 12
"""How many grid points are refined: every fifth of the best."""
FIRST_STEPS = 15
"""Steps after which only the best ..."""
NUM_KEPT = 3
"""... so many of them go on."""


@dataclass(frozen=True)
class Profile:
    """``g(t) = outgoing phi(slope t + shift) + offset``; ``rms`` is relative to the spread of the answers."""

    activation: str
    slope: float
    shift: float
    outgoing: np.ndarray
    offset: np.ndarray
    rms: float

    def argument(self, t: np.ndarray) -> np.ndarray:
        return self.slope * t + self.shift

    def invert(self, values: np.ndarray, guess: np.ndarray, *, max_steps: int = 40) -> np.ndarray:
        """The arguments z near ``guess`` with ``outgoing phi(z) + offset`` closest to values (n, outputs)."""
        phi = act.get(self.activation)
        strength = float(self.outgoing @ self.outgoing)
        target = (values - self.offset) @ self.outgoing / strength
        z = np.array(guess, dtype=np.float64)
        for _ in range(max_steps):
            slope = phi.first(z, np)
            step = np.where(slope == 0, 0.0, (target - phi(z)) / np.where(slope == 0, 1.0, slope))
            step = np.clip(step, -0.5, 0.5)
            z = z + step
            if np.max(np.abs(step), initial=0.0) < 1e-15 * (1 + np.max(np.abs(z), initial=0.0)):
                break
        return z


def fit_profile(t: np.ndarray, y: np.ndarray, activation: str) -> Profile | None:
    """The best unit of this activation through ``y`` (n, outputs) at ``t`` (n,); None when none was found."""
    if act.get(activation).degree == 1:
        return fit_pieces(t, y, activation)
    phi = act.get(activation)
    starts = _grid_starts(t, y, phi)
    if not starts:
        return None
    first, rest = (Settings(target=1e-15, max_steps=n, stall_steps=0) for n in (FIRST_STEPS, 100))
    begun = sorted((fit_network(start, t[:, None], y, settings=first) for start in starts), key=_rms)
    best = min((fit_network(fit.network, t[:, None], y, settings=rest) for fit in begun[:NUM_KEPT]), key=_rms)
    network = best.network
    return Profile(
        activation,
        float(network.weights[0][0, 0]),
        float(network.biases[0][0]),
        network.weights[1][:, 0].copy(),
        network.biases[1].copy(),
        best.rms,
    )


def _rms(fit: Fit) -> float:
    return fit.rms


def fit_pieces(t: np.ndarray, y: np.ndarray, activation: str) -> Profile | None:
    """One kink between two straight pieces; relu when one of them is flat, leaky_relu otherwise."""
    order = np.argsort(t)
    t, y = t[order], y[order]
    spread = max(float(np.std(y)), 1e-300)
    best, least = None, np.inf
    for cut in range(2, len(t) - 1):
        sides = [_straight(t[:cut], y[:cut]), _straight(t[cut:], y[cut:])]
        rms = float(np.sqrt(sum(side[2] for side in sides) / y.size)) / spread
        if rms < least:
            best, least = sides, rms
    if best is None:
        return None
    (left, left_at_0, _), (right, right_at_0, _) = best
    jump, steeper = right - left, max(float(np.linalg.norm(left)), float(np.linalg.norm(right)))
    if np.linalg.norm(jump) <= 1e-9 * steeper:
        return None
    kink = float((left_at_0 - right_at_0) @ jump / (jump @ jump))
    # the active side is the steeper one: value at the kink plus slope (t - kink) there
    sign, slope, other = (
        (1.0, right, left) if np.linalg.norm(right) >= np.linalg.norm(left) else (-1.0, -left, -right)
    )
    ratio = float(other @ slope / (slope @ slope))
    offset = left_at_0 + kink * left
    if abs(ratio) < 1e-9:
        name = "relu"
    elif activation == "relu":
        return None
    else:
        name = f"leaky_relu({ratio:.12g})"
    return Profile(name, sign, -sign * kink, slope, offset, least)


def _straight(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Slope, value at 0 and squared residual of the least-squares line of each output."""
    design = np.column_stack([t, np.ones_like(t)])
    coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
    return coefficients[0], coefficients[1], float(np.sum((y - design @ coefficients) ** 2))


def _grid_starts(t: np.ndarray, y: np.ndarray, phi: act.Activation) -> list[Network]:
    """The best points of a grid of slopes and shifts, their weights by least squares, as 1-1-k networks."""
    reach = max(float(np.max(np.abs(t))), 1e-300)
    sizes = phi.scale / reach * 2.0 ** np.arange(-2, 8, 0.5)
    slopes = sizes if phi.flips else np.concatenate([sizes, -sizes])
    slopes, shifts = (
        a.ravel() for a in np.meshgrid(slopes, phi.scale * np.linspace(-4, 4, 17), indexing="ij")
    )
    with np.errstate(over="ignore", invalid="ignore"):
        values = phi(slopes[:, None] * t + shifts[:, None])
    usable = np.all(np.isfinite(values), axis=1)
    values, slopes, shifts = values[usable], slopes[usable], shifts[usable]
    centred = values - values.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1)
    targets = y - y.mean(axis=0)
    explained = np.linalg.norm(centred @ targets, axis=1) / np.where(norms > 0, norms, np.inf)
    starts = []
    for i in np.argsort(-explained)[: 5 * NUM_REFINED : 5]:
        outgoing = centred[i] @ targets / norms[i] ** 2 if norms[i] > 0 else np.zeros(y.shape[1])
        offset = y.mean(axis=0) - outgoing * values[i].mean()
        starts.append(
            Network(
                [slopes[i].reshape(1, 1), outgoing[:, None]],
                [shifts[i].reshape(1), offset],
                [phi.name, "identity"],
            )
        )
    return starts
