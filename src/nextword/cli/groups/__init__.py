"""Verbs that have verbs of their own: ``nextword survey make``, ``nextword ngram build``."""
