"""What a model gives away under each defence: one identification a case, as a table, a figure, a page and a policy."""

from unweave.audit.cases import Audit, Case, audit

__all__ = ["Audit", "Case", "audit"]
