"""A single text on a terminal: shown as it is written, in the colours of its sources."""
