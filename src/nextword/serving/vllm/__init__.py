"""A plug-in of vLLM that serves folders of ``save_pretrained`` as they are.

In the order in which they act:

1. ``plugin.py`` makes vLLM know our models, as the entry point of group ``vllm.general_plugins``, and says before any
   weights are read what cannot be served.
2. ``served_model.py`` is the model as vLLM calls it: one of vLLM's own models as backbone, and the head, with the
   hidden states below the last for heads that read several (``+mi``), and where the tokens of a pass lie in the KV
   cache.
3. ``places_proposer.py`` drafts by where the head copied the last word from.
"""
