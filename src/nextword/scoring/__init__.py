"""Asks a model about given text: batches in evaluation mode, windows in which every token counts once."""
