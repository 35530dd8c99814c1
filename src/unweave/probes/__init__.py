"""Questions to an oracle: where it grows, where it jumps, how it bends."""
