"""Pages of a survey: what judges open, and what they said."""
