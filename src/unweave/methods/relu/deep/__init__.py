"""ReLU networks of any depth, layer after layer, from one pool of lines, kinks and cells."""
