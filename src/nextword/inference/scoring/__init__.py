"""Asks a model how likely given text is. Nothing is written here, that is ``decoding``.

In the order in which they act:

- ``opened_model.py``: a saved model with its tokenizers;
- ``example_encoding.py``: what it is asked about, as text and as ids;
- ``prompt_encoding.py``, ``text_tokens.py``: prompts, answers and whole texts as token ids, with the bytes of each;
- ``minibatches.py``: slices of a list, each told to whoever watches the progress;
- ``prompt_distributions.py``: the distribution after each prompt;
- ``word_probes.py``: prompts that list words, all of which may come next, or none;
- ``windows.py``, ``long_text.py``: a text longer than a model can see, every token scored exactly once;
- ``remembered_windows.py``: the same for a head that looks back further than a window; ``remembered_text.py``: a text
  that is read before another is written;
- ``target_likelihood.py``: targets, each after its context or source;
- ``token_facts.py``: what is said about each token: probability, rank, entropy, and where the probability came from.
- ``breakdowns/``: tokens told apart, new from repeated ones, copied spans, frequent from rare ones;
- ``calibration/``: settings of a head chosen on held-out text, in one pass: ``nw.calibrate``;
- ``measurement/``: texts scored by several models, with intervals and tests: ``nw.score``.

All of them expect a model as in evaluation, without gradient: ``nextword.model.training_modes.measuring``.
"""
