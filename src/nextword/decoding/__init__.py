"""Lets a model write: ways to choose the next token, prompts, and texts as samples files."""
