"""``nextword serve``: a model behind OpenAI's addresses, on transformers' continuous batching.

To be read in the order in which they act: app, admission, requests, completions, batches, single_texts,
pages, answer_forms.
"""
