"""``nextword quickstart`` is a first comparison for new users."""
