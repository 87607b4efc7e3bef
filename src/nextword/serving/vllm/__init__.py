"""A plug-in of vLLM that serves folders of ``save_pretrained`` as they are."""
