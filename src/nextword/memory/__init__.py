"""What a head keeps between steps, and where it is kept."""
