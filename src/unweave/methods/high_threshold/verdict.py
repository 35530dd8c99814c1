"""What is said about a first layer found under high thresholds: the open network, its open ends, the check it wants.

*Open ends.* Thresholds too low for the guarantee (``mu = cond(W) Pr[unit active]`` times the number of units near one),
units never active in the rows, two units closer than the rows can tell apart, units whose rows fit no single unit, an
upper part that is not monotone in a unit (it rests while the unit is active).

*Check.* ``certificates.first_layer``, on held-out rows, with the resting value and the resolution found here.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from scipy.special import ndtr

from unweave.certificates.first_layer import FirstLayerOnRows
from unweave.core.network import UNKNOWN, Network
from unweave.evidence.rows import Samples
from unweave.methods.base import Finding
from unweave.methods.high_threshold.inverse import InverseFit
from unweave.methods.high_threshold.labels import DEEP, LabelFit
from unweave.methods.high_threshold.union import Union, score_batches

EXACT = 1e-6
"""A relu unit counts as exact when rows not used in its fit have a residual below this."""


def describe_first_layer(
    unit: str,
    samples: Samples,
    labels: np.ndarray,
    resting: np.ndarray,
    fit: LabelFit,
    inverse: list[InverseFit | None],
    num_units: int | None,
) -> Finding:
    """The open network with what is known about its units and what is not."""
    fit, inverse, num_idle = _without_idle(fit, inverse, samples.input_size)
    if not len(fit.union):
        return Finding(None, "no unit has rows of its own; give more rows")
    exact = [f is not None and f.residual < EXACT for f in inverse]
    normals, offsets = fit.union.normals.copy(), fit.union.offsets.copy()
    errors = np.minimum(fit.resolutions, 1.0)
    for i, f in enumerate(inverse):
        if f is not None and exact[i]:
            normals[i], offsets[i], errors[i] = f.direction, f.offset, max(f.standard_error, 1e-16)
    union = Union(normals, offsets)
    if unit == "relu":
        tolerance = EXACT if all(exact) else max(EXACT, 20 * float(np.max(errors[~np.array(exact)])))
    else:
        # Scores are off by the error of the normal times the length of x.
        blur = 1 / _sharpest(fit) if fit.flip_rate > 0 else 0.0
        tolerance = 10 * float(np.max(errors)) * np.sqrt(samples.input_size) + 10 * blur
    undetermined, warnings = _open_ends(
        unit, samples.x, labels, union, fit, inverse, exact, num_units, num_idle
    )
    mu, many = guarantee(union)
    if many > 1:
        level = 2 * float(np.sqrt(samples.input_size * labels.sum())) / len(labels)
        warnings.append(
            f"thresholds are too low for the guarantee: mu = {mu:.2g} ({mu / level:.2g} times the noise of the "
            f"moments), and {many:.2g} units are active at once on average; the check stands on its own"
        )
    if fit.flip_rate > 0:  # a claim explains the labels
        undetermined.append(
            f"layer 1: about {fit.flip_rate:.2%} of the labels contradict the units: wrong labels, or further units"
        )
    spread = np.ptp(samples.y, axis=0)
    details = {
        "resting": resting,
        "spread": np.where(spread > 0, spread, 1.0),
        "flip_rate": fit.flip_rate,
        "mu": mu,
        "margins": fit.margins,
        "num_own_rows": fit.num_own,
        "standard_errors": errors,
        "tolerance": tolerance,
        "inverse": [asdict(f) if f is not None and e else {} for f, e in zip(inverse, exact, strict=True)],
    }
    check = FirstLayerOnRows(
        resting,
        details["spread"],
        tolerance,
        errors,
        fit.flip_rate,
        [f if e else None for f, e in zip(inverse, exact, strict=True)],
    )
    network = Network([normals], [-offsets], [unit], UNKNOWN)
    reason = "the units named below are not settled; more rows may help" if undetermined else ""
    return Finding(network, reason, tuple(warnings), tuple(undetermined), {}, details, checks=(check,))


def guarantee(union: Union) -> tuple[float, float]:
    """``mu = cond(W) Pr[|W| g > t]`` of the paper's Lemma 1, and the number of units times it."""
    values = np.linalg.svd(union.normals, compute_uv=False)
    condition = float(values[0] / max(values[-1], 1e-300)) if len(union) <= union.normals.shape[1] else 1.0
    mu = min(condition, 1e3) * float(ndtr(-np.min(union.offsets) / values[0]))
    return mu, len(union) * float(ndtr(-np.min(union.offsets)))


def _without_idle(fit: LabelFit, inverse, input_size: int):
    """The fit without units that have fewer than d + 2 rows of their own, and how many those were."""
    kept = np.flatnonzero(fit.num_own >= input_size + 2)
    union = Union(fit.union.normals[kept], fit.union.offsets[kept])
    smaller = LabelFit(
        union,
        fit.flip_rate,
        fit.margins[kept],
        fit.num_own[kept],
        fit.num_rows,
        fit.resolutions[kept],
        fit.uneven,
    )
    return smaller, [inverse[i] for i in kept], len(fit.union) - len(kept)


def _open_ends(unit, x, labels, union: Union, fit: LabelFit, inverse, exact, num_units, num_idle):
    d = x.shape[1]
    undetermined, warnings = [], []
    silent, inside = _silent_inside(x, labels, union)
    for i in range(len(union)):
        place = f"layer 1, unit {i}"
        share = silent[i] / max(inside[i], 1)
        if inside[i] >= 20 and share > 3 * fit.flip_rate + 0.01:
            undetermined.append(
                f"{place}: the answer rests on {share:.1%} of the rows where it is active: P is not monotone in it, "
                "or it is no single unit"
            )
        elif unit == "relu" and not exact[i]:
            f = inverse[i]
            why = "too few rows are its own"
            if f is not None:
                why = f"w.x follows from y only to {f.residual:.0e}: noise, or two units closer than rows tell apart"
            undetermined.append(f"{place}: known only to about {fit.resolutions[i]:.0e} ({why})")
        elif unit == "step" and fit.resolutions[i] > 0.1:
            undetermined.append(f"{place}: too few rows lie at its boundary; give more rows")
        elif fit.flip_rate == 0 and not fit.margins[i] > 0 and unit == "step":
            undetermined.append(
                f"{place}: no plane separates its rows; two units may be closer than they tell apart"
            )
    if fit.uneven:
        undetermined.append(f"layer 1: {fit.uneven}")
    cosines = union.normals @ union.normals.T - 2 * np.eye(len(union))
    for i, j in np.argwhere(np.triu(cosines > 0.9)):
        warnings.append(
            f"units {i} and {j} are close (angle {np.degrees(np.arccos(cosines[i, j])):.0f} degrees)"
        )
    missing = num_idle if num_units is None else max(num_units - len(union), 0)
    if missing:
        unseen = _unseen_threshold(len(x), d)
        undetermined.append(
            f"layer 1: {missing} of {len(union) + missing} units are hardly ever active alone in the rows; with "
            f"{len(x):,} rows a threshold above {unseen:.1f} cannot be seen"
        )
    return undetermined, warnings


def _silent_inside(x, labels, union: Union) -> tuple[np.ndarray, np.ndarray]:
    """For each unit the silent rows deep inside its halfspace, and all rows there."""
    silent, inside = np.zeros(len(union)), np.zeros(len(union))
    for start, scores in score_batches(x, union):
        deep = scores > DEEP
        inside += deep.sum(axis=0)
        silent += (deep & ~labels[start : start + len(scores), None]).sum(axis=0)
    return silent, inside


def _unseen_threshold(num_rows: int, input_size: int) -> float:
    """The threshold above which fewer than d + 2 of the rows are expected to be active."""
    from scipy.special import ndtri

    return float(-ndtri(min((input_size + 2) / num_rows, 0.5)))


def _sharpest(fit: LabelFit) -> float:
    return float(np.clip(1 / np.max(fit.resolutions), 16.0, 200.0))
