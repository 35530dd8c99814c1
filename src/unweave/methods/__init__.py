"""One file a way of identifying, each opening with what it recovers from what, and under which assumptions."""
