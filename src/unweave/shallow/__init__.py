"""Shallow networks ``v . phi(W x)`` fitted to any data: the loss, what can be proved at a point, and its landscape."""
