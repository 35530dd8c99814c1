"""The ridges of a function with one hidden layer: seen on a line, then measured where there is room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.one_layer.ridges import (
    RidgeSum,
    distinct_planes,
    fit_affine_part,
    plane_errors,
    remeasure,
    roomy_height,
    same_plane,
)
from unweave.probes.cells import Pieces, measure_pieces
from unweave.probes.inquiry import Inquiry
from unweave.probes.joint_planes import measure_heights, measure_planes_jointly
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines
from unweave.probes.planes import Planes, measure_planes


def find_ridges(inquiry: Inquiry, rng: np.random.Generator) -> tuple[RidgeSum, Pieces]:
    """The planes crossed by one random line, and the affine pieces between them."""
    lines = draw_lines(inquiry.meter.domain, 1, inquiry.input_size, rng)
    kinks = find_kinks(inquiry, lines)
    jointly = measure_planes_jointly(
        inquiry, lines, kinks[0], lambda p, i: roomy_height(inquiry, p, i, rng), rng
    )
    planes, pieces = measure_planes(inquiry, lines, kinks, rng) if jointly is None else jointly
    if not pieces.valid.any():
        middle = (np.maximum(lines.low, -lines.scale) + np.minimum(lines.high, lines.scale)) / 2
        pieces = measure_pieces(inquiry, lines.points(np.arange(len(lines)), middle), lines.scale / 10, rng)
    if not pieces.valid.any():
        d, k = inquiry.input_size, inquiry.output_size
        return RidgeSum(planes.take([]), np.zeros((k, d)), np.zeros(k)), pieces
    return fit_affine_part(distinct_planes(planes), pieces), pieces


def sharpen(
    inquiry: Inquiry,
    model: RidgeSum,
    pieces: Pieces,
    rng: np.random.Generator,
    *,
    target: float = 5e-11,
    share: float = 1 / 3,
    num_candidates: int = 96,
) -> tuple[RidgeSum, Pieces]:
    """Measure the units of low accuracy again at places where the other planes leave room, in two passes."""
    target = max(target, 30 * inquiry.relative)
    planes = settle_offsets(inquiry, model.planes, target, rng)
    model = fit_affine_part(planes, pieces) if pieces.valid.any() else model
    for _ in range(2):
        errors = plane_errors(planes)
        which = np.argsort(-errors)
        which = which[errors[which] > target][: 3 + int(np.ceil(share * len(planes)))]
        if not len(which):
            break
        fresh_planes, fresh_pieces = remeasure(inquiry, model, which, rng, num_candidates)
        for i in range(len(fresh_planes)):
            fresh = fresh_planes.take([i])
            same = same_plane(planes, fresh)
            if same is not None and plane_errors(fresh)[0] < plane_errors(planes)[same]:
                planes = planes.take(np.arange(len(planes)) != same).join(fresh)
        pieces = pieces.join(fresh_pieces)
        model = fit_affine_part(planes, pieces)
    return model, pieces


def settle_offsets(inquiry: Inquiry, planes: Planes, target: float, rng: np.random.Generator) -> Planes:
    """Planes seen far out have good normals but poor offsets: four queries each, near the origin, settle them."""
    far = np.flatnonzero((planes.errors <= target) & (plane_errors(planes) > target))
    if not len(far):
        return planes
    chosen = set(far.tolist())
    _, places, heights = measure_heights(
        inquiry, planes, lambda p, i: roomy_height(inquiry, p, i, rng) if i in chosen else None
    )
    moved = far[np.linalg.norm(places[far], axis=1) < np.linalg.norm(planes.points[far], axis=1)]
    offsets, points = planes.offsets.copy(), planes.points.copy()
    offsets[moved] = heights[moved] - np.einsum("md,md->m", planes.normals[moved], places[moved])
    points[moved] = places[moved]
    return replace(planes, offsets=offsets, points=points)
