"""The figure of a landscape as a file: probabilities with the fitted curve, and success by the signs of the start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unweave.core.errors import ExportError
from unweave.report.canvas import in_house_style
from unweave.report.landscape import landscape

if TYPE_CHECKING:
    from unweave.shallow.grid import LandscapeGrid


@in_house_style
def draw_landscape(grid: LandscapeGrid, path: str | Path) -> None:
    """Write the figure to ``path`` (.svg, .pdf or .png); one or two of n, d, k have to vary.

    The same results give the same file: no date is written.
    """
    path = Path(path)
    figure = landscape(grid)
    try:
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise ExportError(
            f"{path}: {error}; give a name that ends in .svg in a folder that exists"
        ) from error
