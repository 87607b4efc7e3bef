"""``nextword serve``: an HTTP server with OpenAI's API, based on transformers' continuous batching.

Modules in the order in which a request passes them: app, admission, requests, completions, batches, single_texts,
pages, answer_forms.
"""
