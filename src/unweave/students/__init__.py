"""Over-wide students: drawn at random, fitted to answers, pruned to the network behind them."""
