"""transformers' continuous batching (``generate_batch``, its manager, its server) with a head.

- ``head_batching.py``: its entry points, as a model has them.
- ``batchable.py``: what cannot be batched, and what to do instead.
- ``managed_head.py``: what a head needs of the manager that runs the batches.
"""
