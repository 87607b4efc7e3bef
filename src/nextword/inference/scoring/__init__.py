"""Asks a model how likely given text is. Nothing is written here, that is ``generation``.

In the order in which they act:

1. ``opened_model.py`` opens a saved model with its tokenizers, and cuts what it is asked into slices, each told to
   whoever watches the progress.
2. ``text_tokens.py`` makes token ids of prompts, answers and whole texts, with the bytes of each.
3. ``example_encoding.py`` has what a model is asked about, as text and as ids.
4. ``word_probes.py`` has prompts that list words, all of which may come next, or none; those of the papers are in
   ``paper_probes.toml``.
5. ``long_text.py`` scores a text longer than a model can see, in windows and every token exactly once, also for a head
   that looks back further than a window.
6. ``target_likelihood.py`` scores targets, each after its context or source, and asks for the distribution after each
   prompt.
7. ``token_facts.py`` says of each token its probability, rank and entropy, and where the probability came from.
8. ``breakdowns.py`` tells tokens apart: new from repeated ones, copied spans, frequent from rare ones, by position.
9. ``calibrate.py`` chooses the settings of a head on held-out text, in one pass (``nw.calibrate``).
10. ``calibration_results.py`` has the record of what was chosen.
11. ``text_memory_scores.py`` scores texts with a text memory and without, and fits the weights of its matches.
12. ``measurement/`` scores texts by several models, with intervals and tests (``nw.score``).

All of them expect a model as in evaluation, without gradient: ``nextword.model.training_modes.inference_mode_of``.
"""
