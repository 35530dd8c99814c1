"""Anything that answers f(x), one thin adapter a framework."""
