"""Serving engines: models with a head inside an engine that batches the requests of many users.

- ``http/``: ``nextword serve``, on transformers' continuous batching, which the model itself has
  (``nextword.model.batching``).
- ``vllm/``: a plug-in of vLLM.
"""
