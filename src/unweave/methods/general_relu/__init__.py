"""Relu units from Hermite tensors (Awasthi, Tang and Vijayaraghavan 2021)."""
