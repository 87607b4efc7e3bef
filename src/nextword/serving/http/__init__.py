"""``nextword serve``: a model behind OpenAI's addresses, on transformers' continuous batching.

- ``app.py``: the application, and how it is run.
- ``serve_settings.py``: addresses and limits.
- ``answer_request.py``, ``completion_request.py``, ``chat_request.py``: what requests may hold.
- ``completions.py``: what answers them, alone or as a stream.
- ``batches.py``: one manager of continuous batching for all requests, each with its own sampling.
- ``single_texts.py``: what is written beside it: with drafts, and with a seed.
- ``written_answer.py``: an answer as it is written, up to a stop.
- ``answer_facts.py``: what the model says of the tokens of an answer.
- ``told_tokens.py``: how a client is told of them.
- ``answer_forms.py``: what answers look like: completions, and chats.
- ``admission.py``: key, queue, time, clients that hang up, numbers for Prometheus; around all of it.
- ``pages.py``: the page to play with, and the pages of inspected answers.
"""
