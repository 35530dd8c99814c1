"""Relu networks of any depth in bounded domains of few inputs: layer after layer, from zero sets that are followed."""
