"""The lowest layer under high thresholds, and halfspaces (Goel and Panigrahy 2019)."""
