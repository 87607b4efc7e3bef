"""Serves models with a head to several clients at a time: an HTTP server, and a vLLM plug-in."""
