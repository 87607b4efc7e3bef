"""Lets a model write: prompts in, texts out.

In the order in which they act:

- ``strategies``: how the next token is chosen, greedily, drawn or by beam search, and its short forms (``top-k:3``);
- ``prompts``: what a model reads before it writes, and what people wrote there;
- ``writer``: prompts in batches through transformers' ``generate``, token ids out;
- ``samples_files``: prompts times decodings, one samples file each (docs/evaluate.md);
- ``writing_settings``: what a task lets its user set of all this.
"""
