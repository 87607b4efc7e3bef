"""``nextword serve``: an HTTP server with OpenAI's API, based on transformers' continuous batching.

A request passes through the modules in this order: admission, app, requests, completions, batches, single_texts, pages,
answer_forms.
"""
