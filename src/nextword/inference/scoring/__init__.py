"""Asks a model, as in evaluation and without gradient, how likely given text is. Nothing is written here."""
