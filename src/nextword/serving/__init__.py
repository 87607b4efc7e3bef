"""Serving of models with a head for several requests at a time: an HTTP server, and a vLLM plug-in."""
