"""Is this network a global minimum of its training loss? What can be proved at the point itself.

``certify(network, x, y)`` takes one hidden layer and any data. Three proofs of a global minimum: the gap bound for
quadratic units (``shallow.quadratic_bound``), an exact interpolant next to the point (``shallow.interpolation``), and a
loss that is zero to rounding, since no loss is negative. One proof of the contrary: a direction along which the
loss falls, measured. Otherwise the least curvature decides between *second-order stationary* and *undecided*. Every
check says holds, fails or can't be checked, with its number.

One long file: the checks are short, and read best beside the verdict that weighs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from unweave.core.arguments import flag, one_of, shown
from unweave.core.engine import one_thread
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.shallow.checks import Check, Theorem
from unweave.shallow.hypotheses import check_theorems
from unweave.shallow.interpolation import check_interpolation
from unweave.shallow.lanczos import LeastCurvature, dense_least_eigenpair, least_eigenpair
from unweave.shallow.loss import LocalLoss, ShallowLoss, check_samples, shallow_loss
from unweave.shallow.quadratic_bound import bound_gap
from unweave.shallow.trust_region import DENSE, relative_scales

GAP = 1e-8
"""Largest proven gap, relative to the loss of the zero network, that counts as the global minimum."""
ZERO_LOSS = 1e-16
"""Loss relative to that of the zero network from which an interpolant next to the point is looked for."""
ROUNDED_LOSS = 1e-24
"""Loss relative to that of the zero network that is zero to rounding."""
STATIONARY = 1e-6
"""What a relative unit ball may still promise, as a fraction of the loss."""


class Verdict(StrEnum):
    """What was proved."""

    GLOBAL = "certified global minimum"
    NOT_A_MINIMUM = "certified not a minimum"
    STATIONARY = "second-order stationary, not certified global"
    UNDECIDED = "undecided"

    @property
    def exit_status(self) -> int:
        """The exit status of the command line."""
        return {Verdict.GLOBAL: 0, Verdict.NOT_A_MINIMUM: 1, Verdict.STATIONARY: 3, Verdict.UNDECIDED: 4}[
            self
        ]


@dataclass(frozen=True, eq=False)
class Descent:
    """A direction in which the loss falls: that of ``step``, which lowers it from ``before`` to ``after``."""

    weights: np.ndarray
    """Change of the hidden weights (k, d), biases of the hidden units behind them where there are any."""
    output: np.ndarray
    before: float
    after: float
    kind: str
    """``"gradient"`` or ``"negative curvature"``."""


@dataclass(frozen=True, eq=False)
class GlobalCertificate:
    """The verdict with every number behind it."""

    verdict: Verdict
    reason: str
    loss: float
    relative_loss: float
    """Relative to the loss of the zero network."""
    gap: float | None
    """Proven upper bound of ``L - L*``; None when there is none but the loss itself."""
    gradient: float
    curvature: float | None
    """Least curvature found, a value taken by the Hessian; None where there are no second derivatives."""
    curvature_bound: float | None
    """Lower bound of the least curvature; below it only with probability 1e-9 where Lanczos found it."""
    condition: float | None
    """Largest over least size of curvature: how flat the valley is."""
    checks: tuple[Check, ...]
    theorems: tuple[Theorem, ...]
    num_samples: int
    num_parameters: int
    descent: Descent | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def certified(self) -> bool:
        return self.verdict is Verdict.GLOBAL

    @property
    def relative_gap(self) -> float | None:
        """The gap relative to the loss of the zero network."""
        if self.gap is None:
            return None
        return 0.0 if self.gap == 0 else self.gap * self.relative_loss / self.loss if self.loss else self.gap

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, ready for JSON."""
        return {
            "verdict": str(self.verdict),
            "reason": self.reason,
            "loss": self.loss,
            "relative_loss": self.relative_loss,
            "gap": self.gap,
            "relative_gap": self.relative_gap,
            "gradient": self.gradient,
            "curvature": self.curvature,
            "curvature_bound": _finite(self.curvature_bound),
            "condition": _finite(self.condition),
            "num_samples": self.num_samples,
            "num_parameters": self.num_parameters,
            "checks": [check.to_dict() for check in self.checks],
            "theorems": [theorem.to_dict() for theorem in self.theorems],
            "descent": None
            if self.descent is None
            else {"kind": self.descent.kind, "before": self.descent.before, "after": self.descent.after},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.reason}"]
        lines.append(
            f"loss {self.loss:.3e} ({self.relative_loss:.1e} of the zero network's) on {self.num_samples} samples, "
            f"{self.num_parameters} parameters"
        )
        lines.extend(f"  {check}" for check in self.checks)
        for theorem in self.theorems:
            word = {True: "applies", False: "does not apply", None: "can't be checked in full"}[theorem.holds]
            lines.append(f"{theorem.name} {word}: {theorem.conclusion}")
            lines.extend(f"  {check}" for check in theorem.checks if check.holds is not True)
        lines.extend(self.notes)
        return "\n".join(lines)


def certify(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    *,
    output_weights: str = "train",
    truth: Network | None = None,
    thorough: bool = True,
) -> GlobalCertificate:
    """What can be proved about ``network`` as a minimum of the loss on ``x`` (n, inputs), ``y`` (n,).

    Parameters
    ----------
    network
        One hidden layer, one output.
    x, y
        Inputs (n, inputs) and labels (n,).
    output_weights
        "train" for the loss over both layers, "fixed" for that over the hidden weights alone.
    truth
        The planted network, where it is known, for the theorems about planted labels.
    thorough
        False leaves out the theorems, and the curvature where a proof makes it idle.

    Returns
    -------
    GlobalCertificate
        The verdict with every number behind it.

    Raises
    ------
    UnweaveError
        ``InputError`` for networks or samples that cannot be used.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> x = np.random.default_rng(0).normal(size=(30, 3))
    >>> truth = unweave.Network([np.eye(3), np.ones((1, 3))], [None, None], ["quadratic", "identity"])
    >>> unweave.certify(truth, x, truth(x)[:, 0]).certified
    True
    """
    one_of("output_weights", output_weights, ("train", "fixed"))
    flag("thorough", thorough)
    for name, given in (("network", network), *(() if truth is None else (("truth", truth),))):
        if not isinstance(given, Network):
            raise InputError(f"{name}={shown(given)}: give a Network")
    x, y = check_samples(x, y)
    loss, theta = shallow_loss(network, x, y, train_output=output_weights == "train")
    if not np.all(np.isfinite(theta)):
        raise InputError("the network has weights that are not finite numbers; train it again")
    notes = []
    if loss.input_size > network.input_size:
        notes.append("biases of the hidden units were taken as weights of a constant input")
    if np.any(network.biases[1] != 0):
        notes.append("the bias of the output was held fixed")
    with one_thread(), np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return certify_point(loss, theta, truth=truth, thorough=thorough, notes=tuple(notes))


def certify_point(
    loss: ShallowLoss,
    theta: np.ndarray,
    *,
    truth: Network | None = None,
    thorough: bool = True,
    notes: tuple[str, ...] = (),
) -> GlobalCertificate:
    """The same for a point of a loss."""
    here = loss.at(theta)
    value = float(here.value)
    if not np.isfinite(value):
        raise InputError(
            "the network's outputs on x are not finite numbers; scale the data or train it again"
        )
    zero = float(np.mean(loss.y**2)) / 2
    relative = value / zero if zero > 0 else value
    gap, proof, checks = _prove_global(here, relative, zero, thorough)
    smooth = loss.activation.smooth
    curvature, descent, scale = None, None, np.empty(0)
    if thorough or proof is None:
        scale = relative_scales(loss, theta)
    if not thorough and proof is not None:
        checks.append(Check("second-order stationary", None, "not asked for: the global minimum is proved"))
    elif smooth:
        curvature = _least_curvature(here, scale)
        checks.append(_stationarity_check(here, curvature, scale))
    else:
        why = f"{loss.activation.name} has no second derivative"
        checks.append(Check("second-order stationary", None, why))
    condition = None
    if curvature is not None:
        condition = curvature.largest / max(abs(curvature.lower), 1e-300)
    if proof is not None:
        verdict, reason = Verdict.GLOBAL, proof
    else:
        descent = _find_descent(here, curvature, scale)
        if descent is not None:
            verdict = Verdict.NOT_A_MINIMUM
            reason = (
                f"along a direction of {descent.kind} the loss falls from {descent.before:.6e} "
                f"to {descent.after:.6e}"
            )
        elif checks[-1].holds:
            verdict, reason = Verdict.STATIONARY, checks[-1].text
        else:
            verdict, reason = Verdict.UNDECIDED, _why_undecided(checks[-1], condition)
    return GlobalCertificate(
        verdict,
        reason,
        value,
        relative,
        gap,
        float(np.linalg.norm(here.gradient)),
        None if curvature is None else curvature.value,
        None if curvature is None else curvature.lower,
        condition,
        tuple(checks),
        check_theorems(here, curvature, truth) if thorough else (),
        loss.num_samples,
        loss.num_parameters,
        descent,
        notes,
    )


def _prove_global(
    here: LocalLoss, relative: float, zero: float, thorough: bool
) -> tuple[float | None, str | None, list[Check]]:
    """The least proven gap, the proof when it is small enough, and the checks behind it."""
    checks, gap, proof = [], None, None
    value, allowed = float(here.value), GAP * (zero if zero > 0 else 1.0)
    if relative <= ROUNDED_LOSS and not thorough:
        return (
            value,
            _zero_loss(relative),
            [Check("loss zero to rounding", True, f"{relative:.1e}", relative)],
        )
    if here.loss.activation.name == "quadratic":
        bound = bound_gap(here)
        gap = None if bound.gap is None else min(bound.gap, value)
        holds = None if bound.gap is None else bound.gap <= allowed
        text = bound.reason if bound.gap is None else f"L - L* <= {bound.gap:.1e}; {bound.reason}"
        checks.append(Check("gap bound for quadratic units", holds, text, bound.gap))
        if holds:
            proof = f"L - L* <= {min(bound.gap or 0.0, value):.1e}; {bound.reason}"
    found = check_interpolation(here) if relative <= ZERO_LOSS else None
    name = "exact interpolant next to the point"
    if found is not None:
        radius = float(found.radius)
        text = f"h = {float(found.h):.1e} of at most 1/2, least singular value {float(found.least_singular_value):.1e}"
        checks.append(Check(name, bool(found.proved), text, radius if found.proved else None))
        if found.proved:
            gap = value if gap is None else min(gap, value)
            proof = proof or f"an exact interpolant lies within {radius:.1e} (Newton-Kantorovich, {text})"
    elif relative > ZERO_LOSS:
        checks.append(Check(name, False, f"the loss is {relative:.1e} of the zero network's, not zero"))
    else:
        why = f"{here.loss.num_samples} samples, {here.loss.num_parameters} parameters"
        checks.append(Check(name, None, why))
    if proof is None and relative <= ROUNDED_LOSS:
        gap, proof = value, _zero_loss(relative)
    return gap, proof, checks


def _zero_loss(relative: float) -> str:
    return f"the loss is zero to rounding ({relative:.1e} of the zero network's), and no loss is negative"


def _least_curvature(here: LocalLoss, scale: np.ndarray) -> LeastCurvature:
    """In the relative metric: of the dense Hessian where it is small, by Lanczos beyond."""
    if len(scale) <= DENSE:
        return dense_least_eigenpair(here.hessian() * scale[:, None] * scale[None, :])
    return least_eigenpair(lambda u: scale * here.hessian_product(scale * u), len(scale))


def _stationarity_check(here: LocalLoss, curvature: LeastCurvature, scale: np.ndarray) -> Check:
    """No change of the weights by up to their own size promises more than a millionth of the loss."""
    slope = float(np.linalg.norm(here.gradient * scale))
    promise = slope + max(0.0, -curvature.value) / 2
    value = float(here.value)
    how = "exact" if curvature.exact else f"Lanczos, residual {curvature.residual:.0e}"
    text = (
        f"relative gradient {slope:.1e}, least relative curvature {curvature.value:.1e} "
        f"(at least {curvature.lower:.1e}, {how}) at loss {value:.1e}"
    )
    zero = float(np.mean(here.loss.y**2)) / 2
    holds = promise <= STATIONARY * max(value, ZERO_LOSS * zero)
    return Check("second-order stationary", holds, text, promise)


def _find_descent(here: LocalLoss, curvature: LeastCurvature | None, scale: np.ndarray) -> Descent | None:
    """The better of a step along the gradient and one of negative curvature, if the loss falls beyond rounding."""
    candidates = [("gradient", -(scale**2) * here.gradient)]
    if curvature is not None and curvature.value < 0:
        side = -1.0 if float(here.gradient @ (scale * curvature.direction)) > 0 else 1.0
        candidates.append(("negative curvature", side * scale * curvature.direction))
    before, best = float(here.value), None
    enough = before * (1 - STATIONARY)
    for kind, direction in candidates:
        size = float(np.linalg.norm(direction / scale))
        if not size > 0:
            continue
        for exponent in range(0, 40, 2):
            step = direction * (2.0**-exponent / size)
            after = float(here.loss.value(here.theta + step))
            if np.isfinite(after) and after < enough and (best is None or after < best.after):
                change, output = _split_step(here.loss, step)
                best = Descent(change, output, before, after, kind)
    return best


def _split_step(loss: ShallowLoss, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = loss.width * loss.input_size
    output = step[size:] if loss.output is None else np.zeros(loss.width)
    return step[:size].reshape(loss.width, loss.input_size), output


def _why_undecided(check: Check, condition: float | None) -> str:
    flat = "" if condition is None else f"; condition number {condition:.1e}, an ill-conditioned valley"
    return f"no proof, no way down found, and {check.name} {check.word} ({check.text}){flat}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
