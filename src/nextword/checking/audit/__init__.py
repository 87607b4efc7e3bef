"""The audit of anybody's next-word distribution, which asks the properties of the checker too."""
