"""Smooth networks from ordinary points of a bounded domain, by over-wide students."""
