"""What a head keeps between steps, and where it is kept.

A head that looks back (a cache of words, local embeddings, the inputs of the last positions) must find in every step
what it computed in earlier ones. Its contract with one forward pass is ``HeadCacheView`` in ``heads/context.py``.
"""
