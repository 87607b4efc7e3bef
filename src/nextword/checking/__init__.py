"""The checker tests that a model's next-word distributions are valid and depend only on inputs that they may use."""
