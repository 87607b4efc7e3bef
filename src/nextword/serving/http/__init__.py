"""``nextword serve``: a model behind OpenAI's addresses, on transformers' continuous batching.

In the order in which they act:

1. ``app.py`` is the application, and runs it.
2. ``admission.py`` stands around all requests: addresses and limits, key, queue, time, clients that hang up, numbers
   for Prometheus.
3. ``requests.py`` has what requests may hold, for completions and for chats.
4. ``completions.py`` answers them, alone or as a stream.
5. ``batches.py`` is one manager of continuous batching for all requests, each with its own sampling.
6. ``single_texts.py`` writes texts with drafts, and drawn ones with a seed, beside the batches.
7. ``written_answer.py`` is an answer as it is written, up to a stop, and how a client is told of its tokens.
8. ``pages.py`` has what the model says of the tokens of an answer, and keeps the pages of inspected answers.
9. ``answer_forms.py`` says what answers look like: completions, and chats.
"""
