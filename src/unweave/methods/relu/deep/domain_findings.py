"""What is known of a deep network inside a bounded domain, as a finding: all that shows there, or the layers below."""

from __future__ import annotations

from unweave.core.network import UNKNOWN, Network
from unweave.methods.base import Finding
from unweave.methods.relu.deep.compose import Composed
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted


def whole(composed: Composed, network: Network, num_known: int) -> Finding:
    """The ``network``, ``composed`` above ``num_known`` layers; units that only carry what is affine are named."""
    warnings = []
    layers = zip(composed.num_carriers, composed.sides_told, strict=True)
    for layer, (count, told) in enumerate(layers, start=num_known + 1):
        if count:
            text = f"layer {layer}: the last {count} units stand for what is affine in this domain"
            warnings.append(text if told else text + "; they absorb the sides of others")
    return Finding(network, warnings=tuple(warnings), in_domain=True)


def open_above(features: Known | Lifted, reason: str) -> Finding:
    """The layers with sides; or, without any, the hyperplanes that show in the whole domain."""
    while isinstance(features, Lifted) and not (
        isinstance(features.known, Known) and not features.known.depth
    ):
        features = features.known
    if isinstance(features, Known):
        names = ["relu" if not leak else f"leaky_relu({leak:.12g})" for leak in features.leaks]
        depth = features.depth
        words = "the first hidden layer is" if depth == 1 else f"the first {depth} hidden layers are"
        return Finding(
            Network(features.weights, features.biases, names, upper=UNKNOWN),
            reason=f"{words} known as far as it shows here, what stands above is not: {reason}",
            undetermined=("the scale of every row", f"everything above layer {depth}"),
        )
    planes = features.rows
    return Finding(
        Network([planes[:, :-1]], [planes[:, -1]], ["relu"], upper=UNKNOWN),
        reason=f"the first hidden layer is known as far as it shows here, what stands above it is not: {reason}",
        undetermined=(
            *(f"layer 1, unit {i}: the side it is active on" for i in range(len(planes))),
            "layer 1: the scale of every row",
            "everything above layer 1",
        ),
    )
