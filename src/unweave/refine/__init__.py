"""Least squares on all parameters at once: Levenberg-Marquardt, polishing, over-wide fits and pruning."""
