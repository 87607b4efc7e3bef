"""Speculative decoding: a drafter proposes the next tokens, and one pass of the model verifies all of them."""
