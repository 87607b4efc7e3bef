"""Sums and answers over (N, V) scores of which only a few rows are held at once."""
