"""How likely texts are to one model or several: ``nw.score`` and ``nextword score``."""
