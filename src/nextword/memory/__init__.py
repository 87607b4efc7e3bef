"""What a head keeps between steps, and where it is kept.

A head that looks back (a cache of words, local embeddings, the inputs of the last places) must find in every step what
it computed in earlier ones. A ``History`` holds it for all sequences of a batch:

1. ``history.py`` is the contract: what is kept, and what may happen to it. A new home starts there.
2. ``growing_history.py`` is the home for dynamic KV caches: streams that grow with the text, each a
   ``growing_tensor.py``.
3. ``static_history.py`` is the home for static KV caches: tensors of fixed size, for compiled steps.
4. ``kv_cache.py`` lets a history ride in a KV cache of transformers, so that it moves with the keys and values.
"""
