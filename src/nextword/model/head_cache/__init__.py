"""What a head keeps between steps, and where it is kept.

A head that looks back (a cache of words, local embeddings, the inputs of the last positions) must find in every step
what it computed in earlier ones. Its contract with one forward pass is ``HeadCacheView`` in ``heads/context.py``: new
positions are written, texts are read. In the order in which they act:

1. ``head_cache.py`` has that contract for all sequences of a batch, and its two homes: one grows with the text, for
   dynamic KV caches, and one has a fixed size, for static KV caches and compiled steps.
2. ``kv_cache.py`` lets a head cache ride in a KV cache of transformers, so that it moves with the keys and values, and
   lets what is remembered outlive the cache where a text is longer than the window.
3. ``slots.py`` has the same contract for serving engines, whose cache has slots, since requests join, leave and share,
   and lets this memory ride in the paged cache of transformers' continuous batching.
"""
