"""What was measured, as records in files and as pages and tables."""
