"""The mathematics with no network in it."""
