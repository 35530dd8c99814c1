"""Least squares on all parameters of a network: one Levenberg-Marquardt, its layout, steps and error bars."""
