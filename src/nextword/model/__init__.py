"""Models of transformers with a head of ours.

Nothing is imported here: ``import nextword`` passes through on its way to :mod:`nextword.model.registration`.
"""
