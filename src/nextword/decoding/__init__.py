"""Lets a model write: prompts in, texts out.

In the order in which they act:

- ``strategies.py``: how the next token is chosen, greedily, drawn or by beam search, and its short forms (``top-k:3``);
- ``prompts.py``: what a model reads before it writes, and what people wrote there;
- ``writer.py``: prompts in batches through transformers' ``generate``, token ids out;
- ``samples_files.py``: prompts times decodings, one samples file each (docs/evaluate.md);
- ``writing_settings.py``: what a task lets its user set of all this.
"""
