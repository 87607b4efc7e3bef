"""Asks a model how likely given text is. Nothing is written here, that is ``decoding``.

In the order in which they act:

- ``prompt_encoding``, ``text_tokens``: prompts, answers and whole texts as token ids, with the bytes of each token;
- ``minibatches``: slices of a list, each told to whoever watches the progress;
- ``ask``: the distribution after each prompt;
- ``windows``, ``long_text``: a text longer than a model can see, every token scored exactly once;
- ``token_pairs``: targets, each after its context or source.

All of them expect a model as in evaluation, without gradient: ``nextword.model.training_modes.measuring``.
"""
