"""What several commands share: reading numbers and domains, refusing bad targets, writing results."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from unweave.result import Identification


Flag: Parameter = Parameter(negative="")
Quiet = Annotated[bool, Flag, Parameter(help="Show no progress.")]
AllowPickle = Annotated[bool, Flag, Parameter(help="Load pickled models too; a pickle can run any code.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where a result is written."""

    out: Path | None = None
    """Write the recovered network here: .onnx, .safetensors or .npz."""
    json: Path | None = None
    """Write the verdict as JSON here."""
    save: Path | None = None
    """Write network, certificate and ledger here, in one .safetensors file."""
    report: Path | None = None
    """Write the result as one self-contained HTML page here."""

    def check(self) -> None:
        """Refuse impossible destinations before a single query is spent."""
        from unweave.core.errors import ExportError

        check_targets(self.out, self.json, self.save, self.report)
        if self.save is not None and self.save.suffix != ".safetensors":
            raise ExportError(f"--save {self.save}: the name must end in .safetensors")
        if self.report is not None:
            from unweave.report import require_parts

            require_parts()

    def write(self, found: Identification) -> int:
        """Write all that was asked for, print the verdict, and return the exit status."""
        if self.json is not None:
            write_json(self.json, found.to_json())
        if self.save is not None:
            found.save(self.save)
        if self.report is not None:
            found.report(self.report)
        if self.out is not None:
            print(f"unweave: {self._export(found, self.out)}", file=sys.stderr)
        from unweave.cli.wording import with_flags

        print(with_flags(found.verdict()))
        return found.outcome.exit_status

    def _export(self, found: Identification, out: Path) -> str:
        """What became of the network's own file, in words."""
        if found.network is None and found.surrogate is not None:
            from unweave.formats.write import export

            export(found.surrogate, out)
            return f"wrote {out}, a surrogate that is off by {found.surrogate_error:.1e} (rms), not the network itself"
        if found.network is None:
            return f"nothing was written to {out}: no network was found"
        if found.network.is_open:
            return f"nothing was written to {out}: only the first layer is known; keep it with --save"
        found.export(out)
        note = "" if found.identified else f", {found.outcome} only"
        return f"wrote {out} (re-evaluated against the network{note})"


NOWHERE = Outputs()


def check_targets(network: Path | None, *others: Path | None) -> None:
    """Refuse destinations that cannot be written: of a network by its suffix too, of others by their folder."""
    from unweave.formats.write import check_target, require_writable

    if network is not None:
        check_target(network)
    for path in others:
        if path is not None:
            require_writable(path)


def write_json(path: Path, record: Any) -> None:
    from json import dumps

    path.write_text(dumps(record, indent=2, allow_nan=False) + "\n")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of inputs as the place where questions may be asked."""

    data: Path | None = None
    """Ask only where these rows are (.csv, .parquet, .npz), and check the result on them too."""
    within: str = "box"
    """Where the rows are: box, hull or density."""
    categories: str | None = None
    """Columns of --data whose numbers are categories, comma separated."""
    target: str | None = None
    """Columns of --data that are no inputs, comma separated."""

    def read(self) -> Any:
        """The domain, or None without rows."""
        from unweave.core.errors import InputError
        from unweave.evidence.data import Data

        if self.data is None:
            if self != NO_ROWS:
                raise InputError("--within, --categories and --target go with --data")
            return None
        names = () if self.categories is None else [part.strip() for part in self.categories.split(",")]
        target = None if self.target is None else [part.strip() for part in self.target.split(",")]
        return Data(self.data, within=self.within, categories=names, target=target)


NO_ROWS = Rows()


def parse_domain(radius: float | None, box: str | None, rows: Rows = NO_ROWS) -> Any:
    import numpy as np

    from unweave.core.domains import Ball, Box
    from unweave.core.errors import InputError

    if sum(given is not None for given in (radius, box, rows.data)) > 1:
        raise InputError("--radius, --box and --data exclude each other; give one of them")
    among = rows.read()
    if among is not None:
        return among
    if radius is not None:
        return Ball(radius)
    if box is None:
        return None
    if ":" in box:  # each input has bounds of its own
        try:
            low, high = zip(*(map(float, side.split(":")) for side in box.split(",")), strict=True)
        except ValueError as error:
            raise InputError(
                f"--box {box}: give LOW:HIGH for every input, separated by commas, such as 0:40,-1:1"
            ) from error
        return Box(np.array(low), np.array(high))
    bounds = parse_numbers(box, float, "--box", "-1,1")
    if bounds is None or len(bounds) != 2:
        raise InputError(f"--box {box}: give two numbers, LOW,HIGH, such as -1,1")
    return Box(*bounds)


def parse_numbers(text: str | None, kind: Any, option: str, example: str) -> tuple[Any, ...] | None:
    from unweave.core.errors import InputError

    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} {text}: give numbers separated by commas, such as {example}") from error
