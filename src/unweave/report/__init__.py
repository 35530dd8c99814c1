"""A result as figures, pure functions of it, and as one self-contained HTML page."""

from __future__ import annotations

from importlib.util import find_spec

from unweave.core.errors import MissingExtra
from unweave.report.page import render_page, write_page

__all__ = ["render_page", "require_parts", "write_page"]


def require_parts() -> None:
    """Refuse to promise a page that could not be drawn."""
    for package in ("matplotlib", "jinja2"):
        if find_spec(package) is None:
            raise MissingExtra(package, "report")
