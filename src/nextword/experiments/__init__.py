"""Comparisons of heads and objectives: tasks, training, recipes, the tables of the papers."""
