"""``fit``: a shallow network ``v . phi(W x)`` fitted to any data, with what can be proved about the result.

Methods: *closed-form* (quadratic units, the global optimum at once), *levenberg-marquardt* (dual, primal or matrix-free
by size, then the trust region where the loss does not reach zero), *trust-region* (leaves saddles by negative
curvature), *descent* and *perturbed-descent* (constant steps when ``step`` is given, adaptive otherwise). ``"auto"``
takes the closed form where it applies and Levenberg-Marquardt otherwise. Results repeat for the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.core import activations as act
from unweave.core.arguments import flag, listener, number, numbers, one_of, shown, whole
from unweave.core.engine import one_thread
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.shallow import gradient_descent, quadratic, trust_region
from unweave.shallow.global_minimum import GlobalCertificate, Verdict, certify_point
from unweave.shallow.loss import LocalLoss, ShallowLoss, check_samples
from unweave.shallow.steps import fit_shallow
from unweave.solve.descend import Settings

METHODS = ("auto", "closed-form", "levenberg-marquardt", "trust-region", "descent", "perturbed-descent")
Progress = Callable[[str, float, float, float | None], None]


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """The network, what is proved about it, and the losses on the way."""

    network: Network
    certificate: GlobalCertificate
    method: str
    num_steps: int
    history: tuple[float, ...] = field(repr=False)

    @property
    def loss(self) -> float:
        return self.certificate.loss

    @property
    def certified(self) -> bool:
        """Whether the network is a certified global minimum."""
        return self.certificate.certified

    def to_dict(self) -> dict[str, Any]:
        """Method and certificate, ready for JSON."""
        return {"method": self.method, "num_steps": self.num_steps, "certificate": self.certificate.to_dict()}

    def __str__(self) -> str:
        return f"{self.network.describe()} by {self.method}, {self.num_steps} steps\n{self.certificate}"


def fit(
    x: np.ndarray,
    y: np.ndarray,
    *,
    activation: str = "softplus(10)",
    width: int,
    output_weights: str | Sequence[float] | np.ndarray = "train",
    method: str = "auto",
    start: Network | None = None,
    num_starts: int = 5,
    seed: int = 0,
    step: float | None = None,
    max_steps: int | None = None,
    thorough: bool = True,
    progress: Progress | None = None,
) -> FittedNetwork:
    """Fit ``width`` hidden units to ``x`` (n, inputs) and ``y`` (n,).

    Parameters
    ----------
    x, y
        Inputs (n, inputs) and labels (n,).
    activation, width
        Of the hidden units.
    output_weights
        "train", or the (width,) numbers to hold fixed.
    method
        "auto", "closed-form", "levenberg-marquardt", "trust-region", "descent" or "perturbed-descent".
    start
        Where to begin (one attempt); otherwise random starts are tried, at most ``num_starts``, until one is a
        certified global minimum, and the least loss is returned.
    num_starts, seed
        How many random starts, and their seed.
    step, max_steps
        Of the descent; chosen if not given.
    thorough
        False asks the certificate for the proof alone.
    progress
        Called with (method, loss, gradient, curvature); the curvature is None where the method does not compute it.

    Returns
    -------
    FittedNetwork
        The network and its certificate.

    Raises
    ------
    UnweaveError
        ``InputError`` for samples or settings that cannot be used.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> x = np.random.default_rng(0).normal(size=(30, 3))
    >>> unweave.fit(x, (x @ [1.0, 2.0, 0.5]) ** 2, activation="quadratic", width=3).certified
    True
    """
    one_of("method", method, METHODS)
    width, num_starts = whole("width", width, 1), whole("num_starts", num_starts, 1)
    seed, thorough = whole("seed", seed), flag("thorough", thorough)
    step = None if step is None else number("step", step, above=0)
    max_steps = None if max_steps is None else whole("max_steps", max_steps, 1)
    listener("progress", progress)
    if start is not None and not isinstance(start, Network):
        raise InputError(f"start={shown(start)}: give a Network")
    x, y = check_samples(x, y)
    loss = ShallowLoss(x, y, act.get(activation), width, _fixed_output(output_weights, width))
    with one_thread(), np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if method in ("auto", "closed-form") and start is None:
            found = _closed_form(loss, thorough)
            if found is not None:
                return found
        if method == "closed-form":
            raise InputError(_why_no_closed_form(loss, start))
        name = "levenberg-marquardt" if method == "auto" else method
        if not loss.activation.smooth and name == "trust-region":
            raise InputError(
                f"trust-region needs second derivatives, {activation} has none; use levenberg-marquardt"
            )
        return _from_starts(loss, name, start, num_starts, seed, step, max_steps, thorough, progress)


def _from_starts(
    loss: ShallowLoss,
    method: str,
    start: Network | None,
    num_starts: int,
    seed: int,
    step: float | None,
    max_steps: int | None,
    thorough: bool,
    progress: Progress | None,
) -> FittedNetwork:
    best: FittedNetwork | None = None
    for attempt in range(1 if start is not None else num_starts):
        rng = np.random.default_rng([seed, attempt])
        begin = _random_start(loss, rng) if start is None else _given_start(loss, start)
        theta, history, num_steps = _minimise(loss, begin, method, rng, step, max_steps, progress)
        if not np.isfinite(loss.value(theta)):
            raise InputError(f"{method} with step {step} left the numbers; give a smaller step, or none")
        certificate = certify_point(loss, theta, thorough=thorough)
        found = FittedNetwork(loss.network(theta), certificate, method, num_steps, tuple(history))
        if best is None or found.loss < best.loss:
            best = found
        if found.certificate.verdict is Verdict.GLOBAL:
            return found
    assert best is not None
    return best


def _minimise(
    loss: ShallowLoss,
    begin: np.ndarray,
    method: str,
    rng: np.random.Generator,
    step: float | None,
    max_steps: int | None,
    progress: Progress | None,
) -> tuple[np.ndarray, list[float], int]:
    history: list[float] = []

    def watch(here: LocalLoss) -> None:
        history.append(float(here.value))
        if progress is not None:
            progress(method, history[-1], float(np.linalg.norm(here.gradient)), None)

    if method in ("descent", "perturbed-descent"):
        settings = gradient_descent.DescentSettings(max_steps=max_steps or 20_000, step=step)
        perturbed = method == "perturbed-descent"
        end = gradient_descent.descend(loss, begin, settings, perturbed=perturbed, rng=rng, watch=watch)
        return end.parameters, [float(value) for value in end.history], int(end.num_steps)
    steps, theta = 0, begin
    if method == "levenberg-marquardt":
        # A small move leaves exact saddles, at which every residual's gradient may vanish.
        nudge = 1e-3 * rng.standard_normal(len(begin)) * trust_region.relative_scales(loss, begin)
        settings = Settings(max_steps=max_steps or 500, target=1e-14, stall_steps=0, patience=8)
        found = fit_shallow(loss, begin + nudge, settings=settings, watch=watch)
        theta, steps = found.parameters, found.num_steps
        if found.converged or not loss.activation.smooth or _is_lowest_form(loss, theta):
            return theta, history, steps
    most = trust_region.TrustSettings(max_steps=max_steps or 300)
    if len(theta) <= trust_region.DENSE:
        stacked = ShallowLoss(
            loss.x[None],
            loss.y[None],
            loss.activation,
            loss.width,
            None if loss.output is None else loss.output[None],
        )
        end = trust_region.descend_stack(stacked, theta[None], most)
        watch(loss.at(end.parameters[0]))
        if progress is not None:
            progress(method, history[-1], float(end.gradient[0]), float(end.curvature[0]))
        return end.parameters[0], history, steps + int(end.num_steps[0])
    end = trust_region.descend(loss, theta, most, watch)
    if progress is not None:
        progress(method, float(end.value), float(end.gradient), float(end.curvature))
    return end.parameters, history, steps + int(end.num_steps)


def _is_lowest_form(loss: ShallowLoss, theta: np.ndarray) -> bool:
    """Whether quadratic units are already at a provable optimum, where a trust region has nothing to add."""
    if loss.activation.name != "quadratic":
        return False
    return certify_point(loss, theta, thorough=False).certified


def _closed_form(loss: ShallowLoss, thorough: bool) -> FittedNetwork | None:
    if loss.activation.name != "quadratic":
        return None
    found = quadratic.fit_units(loss.x, loss.y, loss.width, loss.output)
    if found is None:
        return None
    theta = loss.join(*found)
    certificate = certify_point(loss, theta, thorough=thorough)
    return FittedNetwork(loss.network(theta), certificate, "closed-form", 1, (certificate.loss,))


def _why_no_closed_form(loss: ShallowLoss, start: Network | None) -> str:
    if loss.activation.name != "quadratic":
        return f"closed-form is for quadratic units, not {loss.activation.name}; use levenberg-marquardt"
    if start is not None:
        return "closed-form takes no start; leave start out"
    return (
        f"closed-form needs as many units of each sign as the optimum has eigenvalues, at most d = {loss.input_size}; "
        "raise the width, or use levenberg-marquardt"
    )


def _fixed_output(given: str | Sequence[float] | np.ndarray, width: int) -> np.ndarray | None:
    if isinstance(given, str):
        if given != "train":
            raise InputError(f"output_weights={given!r}; give 'train' or {width} numbers")
        return None
    output = numbers("output_weights", given)
    if output.shape != (width,) or not np.all(np.isfinite(output)):
        raise InputError(
            f"output_weights has shape {output.shape}; give {width} finite numbers, one a hidden unit"
        )
    return output


def _random_start(loss: ShallowLoss, rng: np.random.Generator) -> np.ndarray:
    """Rows N(0, 1/d) for inputs of unit size, output weights +1 and -1 in turn, in a random order."""
    size = float(np.sqrt(np.mean(loss.x**2))) or 1.0
    weights = rng.standard_normal((loss.width, loss.input_size)) / (np.sqrt(loss.input_size) * size)
    signs = np.where(np.arange(loss.width) % 2 == 0, 1.0, -1.0)
    return loss.join(weights, rng.permutation(signs) if loss.output is None else loss.output)


def _given_start(loss: ShallowLoss, start: Network) -> np.ndarray:
    if start.hidden != (loss.width,) or start.input_size != loss.input_size or start.output_size != 1:
        raise InputError(
            f"start is {start.describe()}; give a network {loss.input_size}-{loss.width}-1 without biases"
        )
    if np.any(start.biases[0] != 0) or np.any(start.biases[1] != 0):
        raise InputError("start has biases, the fitted model has none; append a column of ones to x instead")
    return loss.join(start.weights[0], start.weights[1][0])
