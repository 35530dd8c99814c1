"""Saturating units in a box that switch near its corners only."""
