"""Two hidden layers of relu units, without bounds, from exact answers."""
