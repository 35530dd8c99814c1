"""Smooth networks from second derivatives (Fornasier, Klock and Rauchensteiner 2019)."""
