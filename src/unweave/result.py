"""Identification: what a run found, how well it was verified, what it cost, and what stays unknown.

One immutable value. ``verdict()`` says it in five lines, ``to_json()`` in numbers; ``save`` and ``load`` keep
all of it in one safetensors file (the network, the arrays among the details, the rest as JSON),
which is also a saved network for ``compare`` and ``identify``.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.arguments import file, numbers
from unweave.core.errors import ExportError, InputError, Outcome, UnweaveError
from unweave.core.memory import spell_bytes
from unweave.core.network import Network, unseen_symmetries
from unweave.evidence.ledger import Ledger
from unweave.evidence.precision import Precision
from unweave.formats import native
from unweave.formats.write import export as export_network
from unweave.formats.write import require_writable

if TYPE_CHECKING:
    from unweave.certificates.certificate import Certificate

_RECORD = "identification"
_TENSOR = "__tensor__"


@dataclass(frozen=True, kw_only=True, repr=False)
class Identification:
    """The result of ``identify``: a network with its certificate, or the reason why there is none."""

    outcome: Outcome
    network: Network | None = None
    certificate: Certificate | None = None
    reason: str = ""
    """Why the outcome is not ``identified``, and what would help."""
    ledger: Ledger = field(default_factory=Ledger)
    method: str = ""
    method_reason: str = ""
    """Why this method was chosen."""
    warnings: tuple[str, ...] = ()
    undetermined: tuple[str, ...] = ()
    """Parts of the network that are known not to be determined, in words."""
    alternatives: dict[str, float] = field(default_factory=dict)
    """Relative residual of each activation (or architecture) that was tried."""
    precision: Precision | None = None
    seconds: float = 0.0
    peak_memory: float = field(default=0.0, compare=False)
    """Bytes the process had held at most when the run ended; 0: not known."""
    seed: int = 0
    model_name: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    """Arrays and numbers worth drawing: spectra, crossings, residual histories."""

    @property
    def identified(self) -> bool:
        return self.outcome is Outcome.IDENTIFIED

    @property
    def surrogate(self) -> Network | None:
        """A copy to use: the network, or where none was identified the best student there is; None without one."""
        if self.network is not None and not self.network.is_open:
            return self.network
        kept = self.details.get("surrogate")
        return None if kept is None else Network(kept["weights"], kept["biases"], kept["activations"])

    @property
    def surrogate_error(self) -> float | None:
        """Root mean square error of the surrogate on fresh queries, relative to the spread of the answers."""
        if self.network is not None and not self.network.is_open:
            return None if self.certificate is None else self.certificate.rms_relative_error
        kept = self.details.get("surrogate")
        return None if kept is None else float(kept["error"])

    @property
    def surrogate_error_on_rows(self) -> float | None:
        """The same on your own rows, where they were given as the domain."""
        if self.network is not None and not self.network.is_open:
            check = None if self.certificate is None else self.certificate.check("your rows")
            return None if check is None else float(check.figures["rms_relative_error"])
        kept = self.details.get("surrogate") or {}
        return None if kept.get("error_on_rows") is None else float(kept["error_on_rows"])

    def __call__(self, x: Any) -> np.ndarray:
        """Outputs (n, outputs) of the surrogate for inputs (n, inputs)."""
        return self.predict(x)

    def predict(self, x: Any) -> np.ndarray:
        """The same, by the name that estimators use."""
        if self.surrogate is None:
            raise InputError(f"there is no network to evaluate: {self.reason or self.outcome}")
        columns = self.details.get("inputs")
        if columns is not None and not (np.ndim(x) == 2 and np.shape(x)[1] == self.surrogate.input_size):
            from unweave.evidence.data import encode_rows

            x = encode_rows(x, list(zip(columns["names"], columns["levels"], strict=True)))
        return self.surrogate(numbers("x", x))

    def __repr__(self) -> str:
        size = "" if self.network is None else f" {self.network.describe()}"
        asked = f"{self.ledger.total:,} {self.ledger.unit}"
        return f"<Identification: {self.outcome}{size}, {asked}, method {self.method or 'none'}>"

    def _repr_html_(self) -> str:
        """The verdict, the layers and the ledger, for notebooks."""
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.verdict().splitlines())
        layers = (
            ""
            if self.network is None
            else _html_table(
                ("layer", "weights", "activation", "largest weight"),
                [
                    (i + 1, f"{w.shape[0]} x {w.shape[1]}", name, f"{np.max(np.abs(w), initial=0.0):.3g}")
                    for i, (w, name) in enumerate(
                        zip(self.network.weights, self.network.activations, strict=True)
                    )
                ],
            )
        )
        spent = _html_table(
            ("stage", self.ledger.unit), [*self.ledger.by_stage.items(), ("all", self.ledger.total)]
        )
        return f"<div><strong>{escape(str(self.outcome))}</strong><ul>{lines}</ul>{layers}{spent}</div>"

    @property
    def certificate_seed(self) -> int | None:
        """Where the questions of the certificate began; None for recorded rows."""
        return (self.details.get("asked") or {}).get("certificate_seed")

    @property
    def activation(self) -> str | None:
        """The hidden activation, or several joined by a slash; None without a network."""
        if self.network is None:
            return None
        return "/".join(dict.fromkeys(self.network.hidden_activations)) or "identity"

    @property
    def hidden(self) -> tuple[int, ...] | None:
        """Widths of the hidden layers; None without a network."""
        return None if self.network is None else self.network.hidden

    @property
    def num_parameters(self) -> int | None:
        return None if self.network is None else self.network.num_parameters

    def verdict(self) -> str:
        """Five lines: what was found, how it was verified, what it cost, how, and what is not known."""
        lines = (
            self._what_was_found(),
            self._what_was_verified(),
            self._what_it_cost(),
            self._how(),
            self._what_is_not_known(),
        )
        return "\n".join(" ".join(line.split()) for line in lines)

    def to_json(self) -> dict[str, Any]:
        """The verdict as numbers and words, ready for ``json.dump``; infinities and NaN become null."""
        return _strict(self._record())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one ``.safetensors`` file and return its path; ``load`` reads it back."""
        target = file("path", path)
        if target.suffix != ".safetensors":
            raise ExportError(f"{target}: identifications are saved as .safetensors; change the suffix")
        require_writable(target)
        tensors = {} if self.network is None else native.network_tensors(self.network)
        arrays = {"details": self.details, "fresh": self.certificate.fresh if self.certificate else {}}
        record = _lift_arrays({**self._record(), **arrays}, tensors)
        metadata = {_RECORD: json.dumps(record)}
        if self.network is not None:
            metadata |= native.network_metadata(self.network)
        with tempfile.TemporaryDirectory(prefix=".unweave-", dir=target.parent) as folder:
            draft = Path(folder) / "identification.safetensors"
            native.save_tensors(draft, tensors, metadata)
            if self.network is not None:
                native.require_equal(self.network, native.read_safetensors(draft), target.name)
            os.replace(draft, target)
        return target

    def export(
        self, path: str | os.PathLike[str], *, format: str | None = None, dtype: str = "float64"
    ) -> Path:
        """Write the network alone: ``.onnx``, ``.safetensors`` or ``.npz`` by suffix, re-evaluated first."""
        if self.network is None:
            raise ExportError(f"there is no network to export: {self.reason or self.outcome}")
        return export_network(self.network, path, format=format, dtype=dtype)

    def report(self, path: str | os.PathLike[str], *, reference: Any = None) -> Path:
        """Write one self-contained HTML page and return its path.

        ``reference``, a network or anything that resolves to one, is drawn beside what was found.
        """
        from unweave.report import write_page

        target = file("path", path)
        require_writable(target)
        write_page(self, target, reference)
        return target

    def _record(self) -> dict[str, Any]:
        return {
            "outcome": str(self.outcome),
            "identified": self.identified,
            "reason": self.reason,
            "model": self.model_name,
            "method": self.method,
            "method_reason": self.method_reason,
            "activation": self.activation,
            "hidden": None if self.hidden is None else list(self.hidden),
            "parameters": self.num_parameters,
            "counted": self.ledger.unit,
            self.ledger.unit: self.ledger.total,
            f"{self.ledger.unit}_by_stage": dict(self.ledger.by_stage),
            "replayed": self.ledger.replayed,
            "budget": self.ledger.budget,
            "seconds_by_stage": dict(self.ledger.seconds),
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "precision": None if self.precision is None else dict(vars(self.precision)),
            "undetermined": list(self.undetermined),
            "alternatives": dict(self.alternatives),
            "warnings": list(self.warnings),
            "surrogate": None if self.surrogate is None else self.surrogate.describe(),
            "surrogate_error": self.surrogate_error,
            "surrogate_error_on_rows": self.surrogate_error_on_rows,
            "seconds": self.seconds,
            "peak_memory": self.peak_memory,
            "seed": self.seed,
            "certificate_seed": self.certificate_seed,
        }

    def _what_was_found(self) -> str:
        model = f" ({self.model_name})" if self.model_name else ""
        if self.network is None and self.surrogate is not None:
            copy = f"a surrogate {self.surrogate.describe()} is off by {self.surrogate_error:.1e} (rms)"
            if self.surrogate_error_on_rows is not None:
                copy += f", on your rows by {self.surrogate_error_on_rows:.1e}"
            return f"{self.outcome}{model}: {copy}"
        if self.network is None:
            return f"{self.outcome}{model}: no network was found"
        size = f"{self.network.describe()}, {self.network.num_parameters:,} parameters"
        return f"{self.outcome}{model}: {size}"

    def _what_was_verified(self) -> str:
        if self.certificate is None:
            return f"not verified: there is nothing to check against {self._fresh()}"
        c = self.certificate
        if not c.num_points:
            if self.ledger.shortage:
                return f"not verified: {self.ledger.shortage} were left for a check"
            return f"not verified: nothing could be compared on {self._fresh()}"
        word = "verified" if self.identified else "checked"
        answers = "" if self.precision is None else f"; answers are {self.precision.kind}"
        if self.precision is not None and self.ledger.unit == "rows" and self.precision.kind == "noisy":
            answers += f" (standard deviation {self.precision.noise:.3g})"
        if c.fraction_outside >= 1 and c.checks:  # nothing but places of kinks could be compared
            seen = "; ".join(check.words for check in c.checks)
            return (
                f"{word} on {c.num_points:,} kinks of fresh lines: {seen}, off by at most "
                f"{c.max_relative_error:.1e}{answers}"
            )
        return (
            f"{word} on {c.num_points:,} {self._fresh()}: max relative error {c.max_relative_error:.1e}, "
            f"rms {c.rms_relative_error:.1e}; larger on at most {100 * c.fraction_outside:.1f} % of the "
            f"domain (95 % confidence){answers}{self._on_own_rows()}"
        )

    def _on_own_rows(self) -> str:
        """How well the user's own rows are reproduced, where they were given."""
        check = None if self.certificate is None else self.certificate.check("your rows")
        return "" if check is None else f"; {check.words}"

    def _fresh(self) -> str:
        return "held-out rows" if self.ledger.unit == "rows" else "fresh queries"

    def _what_it_cost(self) -> str:
        total = self.ledger.total
        each = f" ({total / self.num_parameters:.1f} a parameter)" if self.num_parameters else ""
        limit = "" if self.ledger.budget is None else f" of {self.ledger.budget:,}"
        stages = ", ".join(f"{stage} {count:,}" for stage, count in self.ledger.by_stage.items() if count)
        old = self.ledger.replayed
        paid = f"; {old:,} replayed from the journal, {total - old:,} new" if old else ""
        memory = f", {spell_bytes(self.peak_memory)} at most" if self.peak_memory else ""
        return f"{total:,} {self.ledger.unit}{limit}{each}: {stages or 'none'}{paid}; {self.seconds:.1f} s{memory}"

    def _how(self) -> str:
        chosen = (
            f"{self.method or 'none'}: {self.method_reason}" if self.method_reason else self.method or "none"
        )
        ranked = sorted(self.alternatives.items(), key=lambda item: item[1])
        tried = (
            "; residuals " + ", ".join(f"{name} {value:.1e}" for name, value in ranked[:3]) if ranked else ""
        )
        return f"method {chosen}{tried}"

    def _what_is_not_known(self) -> str:
        parts = []
        if not self.identified:
            parts.append(self.reason or "no reason was given")
        if self.undetermined:
            shown = "; ".join(self.undetermined[:4])
            more = len(self.undetermined) - 4
            parts.append(f"undetermined: {shown}" + (f" and {more} more" if more > 0 else ""))
        if self.identified and self.network is not None:
            known = f"known up to {unseen_symmetries(self.network)}"
            error = None if self.certificate is None else self.certificate.max_standard_error
            if error is not None:
                known += f", each unit to {error:.0e} of its largest weight"
            parts.append(f"{known}; units without effect cannot be seen")
            parts.extend(self._what_could_hide())
        parts.extend(self.warnings)
        return "; ".join(part.rstrip(".; ") for part in parts) or "nothing is known about the model"

    def _what_could_hide(self) -> list[str]:
        """How rare a unit the search for disagreement may have missed, and how round a bend rounded answers leave."""
        if self.certificate is None:
            return []
        looked = [self.certificate.check(name) for name in ("search for disagreement", "sharpness of bends")]
        return [check.words for check in looked if check is not None and check.needed and check.words]


def _html_table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    def line(cells: tuple[Any, ...], tag: str) -> str:
        texts = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
        return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"

    return f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


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
    source = file("path", path)
    tensors, metadata = native.load_tensors(source)
    if _RECORD not in metadata:
        raise InputError(f"{source} holds a network without its identification; use exports.load_network")
    network = native.network_from(source, tensors, metadata) if "activations" in metadata else None
    try:
        record = _lower_arrays(json.loads(metadata[_RECORD]), tensors)
        return Identification(
            outcome=Outcome(record["outcome"]),
            network=network,
            certificate=_read_certificate(record["certificate"], record.get("fresh", {})),
            reason=record["reason"],
            ledger=_read_ledger(record),
            method=record["method"],
            method_reason=record["method_reason"],
            warnings=tuple(record["warnings"]),
            undetermined=tuple(record["undetermined"]),
            alternatives=dict(record["alternatives"]),
            precision=None if record["precision"] is None else Precision(**record["precision"]),
            seconds=record["seconds"],
            peak_memory=record.get("peak_memory", 0.0),
            seed=record["seed"],
            model_name=record["model"],
            details=record["details"],
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


def _strict(value: Any) -> Any:
    """``value`` with numpy numbers as Python's and non-finite ones as None, as strict JSON wants."""
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, np.ndarray):
        return _strict(value.tolist())
    if isinstance(value, np.generic):
        return _strict(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
