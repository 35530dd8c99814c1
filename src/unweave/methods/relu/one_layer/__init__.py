"""One hidden layer of relu units: sums of ridges."""
