"""What several commands share: reading numbers and domains, refusing bad targets, writing results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.comparison import Comparison
    from unweave.result import Identification


def check_targets(out: Path | None, json: Path | None, save: Path | None, report: Path | None = None) -> None:
    """Refuse impossible destinations before a single query is spent."""
    from unweave.core.errors import ExportError
    from unweave.formats.write import check_target, require_writable

    if out is not None:
        check_target(out)
    if json is not None:
        require_writable(json)
    if report is not None:
        from unweave.report import require_parts

        require_writable(report)
        require_parts()
    if save is not None:
        require_writable(save)
        if save.suffix != ".safetensors":
            raise ExportError(f"--save {save}: the name must end in .safetensors")


def parse_domain(radius: float | None, box: str | None) -> Any:
    from unweave.core.domains import Ball, Box
    from unweave.core.errors import InputError

    if radius is not None and box is not None:
        raise InputError("--radius and --box exclude each other; give one of them")
    if radius is not None:
        return Ball(radius)
    bounds = parse_numbers(box, float, "--box", "-1,1")
    if bounds is None:
        return None
    if len(bounds) != 2:
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


def write_outputs(
    found: Identification,
    out: Path | None,
    json: Path | None,
    save: Path | None,
    report: Path | None = None,
) -> None:
    if json is not None:
        from json import dumps

        json.write_text(dumps(found.to_json(), indent=2, allow_nan=False) + "\n")
    if save is not None:
        found.save(save)
    if report is not None:
        found.report(report)
    if out is None:
        return
    if found.network is None:
        print(f"unweave: nothing was written to {out}: no network was found", file=sys.stderr)
    elif found.network.is_open:
        note = "only the first layer is known; keep it with --save"
        print(f"unweave: nothing was written to {out}: {note}", file=sys.stderr)
    else:
        found.export(out)
        note = "" if found.identified else f", {found.outcome} only"
        print(f"unweave: wrote {out} (re-evaluated against the network{note})", file=sys.stderr)


def print_layers(comparison: Comparison) -> None:
    print(f"{'layer':>5}  {'matched':>7}  {'unmatched':>9}  {'max rel. error':>14}  {'rms':>8}")
    for i, layer in enumerate(comparison.per_layer):
        print(
            f"{i + 1:>5}  {layer.num_matched:>7}  {layer.num_unmatched:>9}  "
            f"{layer.max_relative_error:>14.1e}  {layer.rms_relative_error:>8.1e}"
        )
    if comparison.functional_error is not None:
        print(
            f"largest difference of outputs on 200 points: {comparison.functional_error:.1e} of their spread"
        )
