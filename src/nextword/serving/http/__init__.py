"""``nextword serve``: transformers' own server with what it lacks for our models.

- ``app.py``: transformers' application with our parts in it, and how it is run.
- ``serve_settings.py``: addresses and limits.
- ``batches.py``: one manager of continuous batching for all requests, each with its own sampling.
- ``completions.py``: ``/v1/completions``, with log-probabilities and, when asked for, sources and places.
- ``answer_forms.py``: how its answers are written, and those of a chat.
- ``completion_request.py``: what such a request may hold.
- ``chat.py``: ``/v1/chat/completions``.
- ``answer_facts.py``: what the model says of the tokens of an answer.
- ``admission.py``: key, queue, time, clients that hang up, numbers for Prometheus; around all of it.
- ``pages.py``: the page to play with, and the pages of inspected answers.
"""
