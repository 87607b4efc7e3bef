"""Results: records in files, HTML pages and tables."""
