"""Saturating networks from questions far out, where all units but one are constant."""
