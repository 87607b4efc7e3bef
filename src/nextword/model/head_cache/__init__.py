"""Caches of heads, which are kept between decoding steps.

A head that reads earlier positions (cached tokens, local embeddings, inputs of the last positions) needs values from
earlier steps. ``HeadCacheView`` in ``heads/context.py`` is the cache as a head sees it in one forward pass.
"""
