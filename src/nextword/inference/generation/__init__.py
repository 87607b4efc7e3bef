"""Lets a model write: prompts in, texts out.

In the order in which they act:

- ``strategies.py``: how the next token is chosen, greedily, drawn or by beam search, and its short forms (``top-k:3``);
- ``prompts.py``: what a model reads before it writes, and what people wrote there;
- ``writer.py``: prompts in batches through transformers' ``generate``, token ids out;
- ``samples_files.py``: prompts times decodings, one samples file each (docs/evaluate.md);
- ``writing_settings.py``: what a task lets its user set of all this.

A saved model and prompts of any kind, as in ``nextword generate``:

- ``generation_settings.py``: what can be set; ``generation_passes.py``: decodings times seeds, with what each means to
  ``generate``;
- ``prompt_files.py``, ``encoded_prompts.py``: prompts as text, and as ids that fit the model;
- ``row_sampling.py``: random numbers for each text by itself; ``batched_generation.py``: rows sorted by length;
- ``source_columns.py``, ``sample_lines.py``: where each token came from; a line of a samples file;
- ``partial_samples.py``: a file that goes on after an interruption; ``generation_run.py``: all of it;
- ``terminal/``: a single text, shown while it is written.
"""
