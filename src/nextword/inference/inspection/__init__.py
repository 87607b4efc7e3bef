"""Predictions of a model at every token of one text, with the attribution of each probability (``nw.trace``)."""
