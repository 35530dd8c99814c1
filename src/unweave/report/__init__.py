"""A result as one self-contained HTML page."""

from unweave.report.page import write_page

__all__ = ["write_page"]
