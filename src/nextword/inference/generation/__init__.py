"""Lets a model write: prompts in, texts out.

In the order in which they act:

1. ``strategies.py`` has how the next token is chosen, greedily, drawn or by beam search, with the short forms
   (``top-k:3``), and what a task lets its user set of that.
2. ``prompts.py`` has what a model reads before it writes, as text and as ids that fit the model, and what people wrote
   there.
3. ``samples_files.py`` writes prompts times decodings, in batches through transformers' ``generate``, one samples file
   each (docs/evaluate.md).

A saved model and prompts of any kind, as in ``nextword generate``:

4. ``generation_passes.py`` has what can be set, and decodings times seeds with what each means to ``generate``.
5. ``row_sampling.py`` draws random numbers for each text by itself.
6. ``batched_generation.py`` writes rows sorted by length, and says where each token came from.
7. ``generation_run.py`` leads all of it, and writes lines into samples files that go on after an interruption.
8. ``terminal.py`` shows a single text while it is written.
"""
