"""What answers of people need beyond the statistics of metrics: two levels of chance, agreement, ranks."""
