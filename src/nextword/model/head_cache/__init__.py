"""Caches of heads, which are kept between decoding steps.

A head that reads earlier positions needs their values again in later steps, such as tokens and local embeddings.
``HeadCacheView`` in ``heads/context.py`` is the cache as a head sees it in one forward pass.
"""
