"""Private to task ``expand``: summaries and articles in tokens and as rows, steering, settings of start and texts."""
