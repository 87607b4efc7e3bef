"""The page of a trace: one text, token by token."""
