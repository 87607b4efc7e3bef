"""Transformers models with a nextword head; ``modeling.py`` runs a forward pass, from the arguments to the loss.

This file imports nothing, so that ``import nextword``, which loads ``nextword.model.registration``, is fast.
"""
