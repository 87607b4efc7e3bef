"""Models of transformers with a head of ours; ``modeling.py`` leads a pass from the arguments to the loss.

Nothing is imported here: ``import nextword`` passes through on its way to ``nextword.model.registration``.
"""
