"""Serving of models with a head, with batched requests: an HTTP server, and a vLLM plug-in."""
