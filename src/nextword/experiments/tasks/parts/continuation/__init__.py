"""Private to task ``continue``: stories from files, and in tokens."""
