"""Where data comes from, and what can be read from samples alone."""
