"""Networks from recorded rows."""
