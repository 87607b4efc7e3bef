"""Experiments: tasks, training, comparisons of heads and objectives, recipes, and the tables of papers."""
