"""Verbs that have verbs of their own: ``nextword survey make``, ``nextword text-memory build``."""
