"""Caches of heads, which are kept between decoding steps.

A head that reads earlier positions (cached tokens, local embeddings, inputs of the last positions) needs values from
earlier steps. Its interface in one forward pass is ``HeadCacheView`` in ``heads/context.py``.
"""
