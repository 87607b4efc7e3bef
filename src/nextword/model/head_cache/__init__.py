"""What a head keeps between steps, and where it is kept.

A head that looks back (a cache of words, local embeddings, the inputs of the last places) must find in every step what
it computed in earlier ones.

1. ``pass_memory.py`` is the contract with one forward pass: new places are written, texts are read.
2. ``history.py`` is that contract for all sequences of a batch, with what may happen to them between passes. A new home
   that rides in a KV cache starts there.
3. ``growing_history.py`` is the home for dynamic KV caches: streams that grow with the text, each a
   ``growing_tensor.py``.
4. ``long_memory.py`` lets what is remembered outlive the KV cache: windows of a text longer than each of them.
5. ``static_history.py`` is the home for static KV caches: tensors of fixed size, for compiled steps.
6. ``kv_cache.py`` lets a history ride in a KV cache of transformers, so that it moves with the keys and values.
7. ``slots.py`` is the contract for serving engines, whose cache has slots: requests that join, leave and share.
"""
