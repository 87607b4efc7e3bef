"""Generation of texts from prompts."""
