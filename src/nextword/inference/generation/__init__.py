"""Lets a model write: prompts in, texts out."""
