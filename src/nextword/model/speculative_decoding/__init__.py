"""Speculative decoding: tokens that may come next are drafted, and one pass of the model verifies them all."""
