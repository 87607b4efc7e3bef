"""The checker: is what a model answers a distribution, and does it depend on what it may depend on only."""
