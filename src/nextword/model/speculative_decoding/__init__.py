"""Speculative decoding: next tokens are drafted, and one pass of the model verifies all of them."""
