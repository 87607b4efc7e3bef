"""One model is trained: what ``transformers.Trainer`` does not do itself.

In the order in which they act, called by ``one_training.py``:

1. ``method_settings.py``: what the model is; ``settings.py``: how it is trained, ``trainer_arguments.py``: the same in
   Trainer's words. ``collator.py`` pads rows of ids to batches; ``encoded_texts.py`` has the states of auxiliary texts
   that a frozen encoder reads once.
2. ``trainable.py``: which parameters are trained, with ``adapters.py`` (LoRA) in the backbone where they are asked for.
3. ``resume.py``: whether the folder holds checkpoints of this very training, and which of them is whole.
4. ``learning_rates.py``: the Trainer, with learning rates for parts of the model; ``segments/`` one that reads the
   rows of a text in order.
5. ``sharding.py``: a model spread over processes, and gathered again.
6. Its callbacks, in every step: ``epochs.py`` tells the data which epoch begins, ``cost.py`` measures time and memory,
   ``loss_curve.py`` keeps the curve, and stops what diverges or improves no more; ``resume.py`` puts their
   numbers into checkpoints.
7. ``outcome.py``: what the finished training says about itself.
"""
