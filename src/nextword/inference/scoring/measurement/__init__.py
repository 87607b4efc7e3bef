"""Likelihood of texts under one model or several: ``nw.score`` and ``nextword score``."""
