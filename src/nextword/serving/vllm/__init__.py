"""A plug-in for vLLM that serves saved model folders unchanged."""
