"""Serving engines: models with a head inside an engine that batches the requests of many users.

- ``vllm/``: a plug-in of vLLM.

transformers' own continuous batching is a way to call the model itself: ``nextword.model.batching``.
"""
