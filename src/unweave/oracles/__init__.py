"""Anything that answers f(x): thin adapters, and the meter every question passes through."""
