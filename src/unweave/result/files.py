"""A result as a file: one safetensors file with the network, the arrays among the details, and the rest as JSON.

The same file is a saved network for ``compare`` and ``identify``.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.arguments import file
from unweave.core.errors import ExportError, InputError, Outcome, UnweaveError
from unweave.evidence.ledger import Ledger
from unweave.evidence.precision import Precision
from unweave.formats import native
from unweave.formats.write import require_writable

if TYPE_CHECKING:
    from unweave.certificates.certificate import Certificate
    from unweave.result.identification import Identification

_RECORD = "identification"
_TENSOR = "__tensor__"


def save(found: Identification, path: str | os.PathLike[str]) -> Path:
    """Write everything to one ``.safetensors`` file and return its path; ``load`` reads it back."""
    target = file("path", path)
    if target.suffix != ".safetensors":
        raise ExportError(f"{target}: identifications are saved as .safetensors; change the suffix")
    require_writable(target)
    tensors = {} if found.network is None else native.network_tensors(found.network)
    arrays = {"details": found.details, "fresh": found.certificate.fresh if found.certificate else {}}
    content = _lift_arrays({**record(found), **arrays}, tensors)
    metadata = {_RECORD: json.dumps(content)}
    if found.network is not None:
        metadata |= native.network_metadata(found.network)
    with tempfile.TemporaryDirectory(prefix=".unweave-", dir=target.parent) as folder:
        draft = Path(folder) / "identification.safetensors"
        native.save_tensors(draft, tensors, metadata)
        if found.network is not None:
            native.require_equal(found.network, native.read_safetensors(draft), target.name)
        os.replace(draft, target)
    return target


def load(path: str | os.PathLike[str]) -> Identification:
    """The identification in a file written by ``Identification.save``.

    Parameters
    ----------
    path
        A ``.safetensors`` file.

    Returns
    -------
    Identification
        Everything that was saved: network, certificate, ledger, details.

    Raises
    ------
    UnweaveError
        ``InputError`` for a file that is missing, broken or holds a network alone.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> found = unweave.identify(lambda x: np.tanh(x @ [1.0, -2.0]), input_size=2)
    >>> unweave.load(found.save("found.safetensors")).outcome
    <Outcome.IDENTIFIED: 'identified'>
    """
    from unweave.result.identification import Identification

    source = file("path", path)
    tensors, metadata = native.load_tensors(source)
    if _RECORD not in metadata:
        raise InputError(f"{source} holds a network without its identification; use exports.load_network")
    network = native.network_from(source, tensors, metadata) if "activations" in metadata else None
    try:
        kept = _lower_arrays(json.loads(metadata[_RECORD]), tensors)
        return Identification(
            outcome=Outcome(kept["outcome"]),
            network=network,
            certificate=_read_certificate(kept["certificate"], kept.get("fresh", {})),
            reason=kept["reason"],
            ledger=_read_ledger(kept),
            method=kept["method"],
            method_reason=kept["method_reason"],
            warnings=tuple(kept["warnings"]),
            undetermined=tuple(kept["undetermined"]),
            alternatives=dict(kept["alternatives"]),
            precision=None if kept["precision"] is None else Precision(**kept["precision"]),
            seconds=kept["seconds"],
            peak_memory=kept.get("peak_memory", 0.0),
            seed=kept["seed"],
            model_name=kept["model"],
            details=kept["details"],
        )
    except UnweaveError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{source}: the record of the identification is damaged ({error}); save it again"
        ) from error


def _read_ledger(record: dict[str, Any]) -> Ledger:
    unit = record.get("counted", "queries")
    seconds = dict(record.get("seconds_by_stage", {}))
    replayed = record.get("replayed", 0)
    return Ledger(record["budget"], dict(record[f"{unit}_by_stage"]), seconds, unit, replayed)


def _read_certificate(record: dict[str, Any] | None, fresh: dict[str, Any]) -> Certificate | None:
    if record is None:
        return None
    from unweave.certificates.certificate import Certificate

    return Certificate.from_dict({**record, "fresh": fresh})


def _lift_arrays(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    """``value`` as JSON, with its arrays moved to ``tensors``; what neither can hold is kept as text."""
    if isinstance(value, dict):
        return {str(key): _lift_arrays(item, tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_lift_arrays(item, tensors) for item in value]
    if isinstance(value, np.generic):
        return _lift_arrays(value.item(), tensors)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        key = f"details.{len(tensors)}"
        tensors[key] = np.array(value)
        return {_TENSOR: key}
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _lower_arrays(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {key: _lower_arrays(item, tensors) for key, item in value.items()}
    return [_lower_arrays(item, tensors) for item in value] if isinstance(value, list) else value


def record(found: Identification) -> dict[str, Any]:
    """Everything but arrays, as numbers and words."""
    return {
        "outcome": str(found.outcome),
        "identified": found.identified,
        "reason": found.reason,
        "model": found.model_name,
        "method": found.method,
        "method_reason": found.method_reason,
        "activation": found.activation,
        "hidden": None if found.hidden is None else list(found.hidden),
        "parameters": found.num_parameters,
        "counted": found.ledger.unit,
        found.ledger.unit: found.ledger.total,
        f"{found.ledger.unit}_by_stage": dict(found.ledger.by_stage),
        "replayed": found.ledger.replayed,
        "budget": found.ledger.budget,
        "seconds_by_stage": dict(found.ledger.seconds),
        "certificate": None if found.certificate is None else found.certificate.to_dict(),
        "precision": None if found.precision is None else dict(vars(found.precision)),
        "undetermined": list(found.undetermined),
        "alternatives": dict(found.alternatives),
        "warnings": list(found.warnings),
        "surrogate": None if found.surrogate is None else found.surrogate.describe(),
        "surrogate_error": found.surrogate_error,
        "surrogate_error_on_rows": found.surrogate_error_on_rows,
        "seconds": found.seconds,
        "peak_memory": found.peak_memory,
        "seed": found.seed,
        "certificate_seed": found.certificate_seed,
    }


def strict(value: Any) -> Any:
    """``value`` with numpy numbers as Python's and non-finite ones as None, as strict JSON wants."""
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, np.ndarray):
        return strict(value.tolist())
    if isinstance(value, np.generic):
        return strict(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
