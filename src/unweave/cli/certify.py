"""``unweave certify``: is a trained network a global minimum of its training loss?"""

from __future__ import annotations

from pathlib import Path

from unweave.cli.options import AllowPickle, check_targets, write_json


def certify(
    network: str,
    data: Path,
    /,
    *,
    output_weights: str = "train",
    truth: str | None = None,
    json: Path | None = None,
    allow_pickle: AllowPickle = False,
) -> int:
    """Say what can be proved about a trained network as a minimum of its loss.

    Parameters
    ----------
    network
        One hidden layer and one linear output: .safetensors, .npz, .onnx, or module:attribute.
    data
        The training samples: an .npz file with arrays x (n, inputs) and y (n,), or parquet with a column y.
    output_weights
        train: the loss over both layers; fixed: over the hidden weights alone.
    truth
        The planted network the labels come from, where it is known.
    json
        Write the certificate as JSON here.
    """
    from unweave.models.resolve import resolve_network
    from unweave.shallow.data import read_samples
    from unweave.shallow.global_minimum import certify as judge

    check_targets(None, json)
    x, y = read_samples(data)
    trained = resolve_network(network, allow_pickle=allow_pickle)
    planted = None if truth is None else resolve_network(truth, allow_pickle=allow_pickle)
    certificate = judge(trained, x, y, output_weights=output_weights, truth=planted)
    if json is not None:
        write_json(json, certificate.to_dict())
    print(trained.describe())
    print(certificate)
    return certificate.verdict.exit_status
