"""Networks as files and as models of other frameworks."""
