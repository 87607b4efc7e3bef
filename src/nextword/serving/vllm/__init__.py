"""A plug-in of vLLM that serves folders of ``save_pretrained`` as they are.

- ``plugin.py``: makes vLLM know our models; the entry point of group ``vllm.general_plugins``.
- ``served_model.py``: the model as vLLM calls it: one of vLLM's own models as backbone, and the head.
- ``servable.py``: what cannot be served, said before any weights are read.
- ``passes.py``: where the tokens of a pass lie in the KV cache, from what vLLM tells its attention layers.
- ``backbone_layers.py``: hidden states below the last, for heads that read several (``+mi``).
"""
