"""Two hidden layers of (leaky) relu units of any width, in any convex domain, from rough or exact answers."""
