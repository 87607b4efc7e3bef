"""The plan of ``nextword reproduce --dry-run``: trainings, their cost, and all problems."""
