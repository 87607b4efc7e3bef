"""The audit of any next-word distribution (any model or scorer); it also tests the checker's properties."""
