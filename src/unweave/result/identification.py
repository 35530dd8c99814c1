"""Identification: what a run found, how well it was verified, what it cost, and what stays unknown.

One immutable value. ``verdict()`` says it in five lines, ``to_json()`` in numbers; ``save`` and ``load`` keep it all.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.arguments import file, numbers
from unweave.core.errors import ExportError, InputError, Outcome
from unweave.core.network import Network
from unweave.evidence.ledger import Ledger
from unweave.evidence.precision import Precision
from unweave.formats.write import export as export_network
from unweave.formats.write import require_writable
from unweave.result.files import record, save, strict
from unweave.result.verdict import as_html, verdict

if TYPE_CHECKING:
    from unweave.certificates.certificate import Certificate


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
        return as_html(self)

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
        return verdict(self)

    def to_json(self) -> dict[str, Any]:
        """The verdict as numbers and words, ready for ``json.dump``; infinities and NaN become null."""
        return strict(record(self))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one ``.safetensors`` file and return its path; ``load`` reads it back."""
        return save(self, path)

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
