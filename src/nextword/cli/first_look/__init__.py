"""``nextword quickstart``: a first comparison for new users."""
