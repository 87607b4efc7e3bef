"""Models with a head inside an engine that batches the requests of many users: our own server, and vLLM's."""
