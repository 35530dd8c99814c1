"""What everything else speaks of: networks, activations, domains, oracles, outcomes."""
