"""What was checked after a network was found, on answers that no fit has seen."""
