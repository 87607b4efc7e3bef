"""The plan of ``nextword reproduce --dry-run``: what would be trained, what that takes, and what is wrong."""
