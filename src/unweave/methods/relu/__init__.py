"""Piecewise linear networks from the kinks on lines."""
