"""Hermite tensors of a function from samples, as mergeable streaming sums."""
