"""Private to task ``expand``: its settings, rows of summary and article, what it measures and writes."""
