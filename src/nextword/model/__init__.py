"""Models of transformers with a head of ours.

- ``attach.py``, ``loading.py``, ``configuration.py``, ``registration.py``: how one is made, loaded and found by
  transformers. ``saving.py``: what its folder holds. ``remote_code.py``: the file there that leads back to us.
- ``modeling.py``: its classes, and the line of a pass from the arguments to the loss; ``forward/`` has the steps.
- ``delegation.py``: what the backbone answers. ``conditioned_model.py``: what an auxiliary text needs.
  ``peft_adapters.py``: what an adapter of peft takes along.
- ``generation.py``, ``redraw.py``: what ``generate`` hands on. ``unconstrained_generation.py``: generation without the
  constraints of a pretrained model's own settings.
- ``drafting/``: several words a pass.
- ``batching/``: what transformers' continuous batching hands on.
- ``training_modes.py``: parts in training and parts in evaluation, as their owner set them.
- ``sequence_level_batch.py``: the batch that a ``+seq`` update learns from.

Nothing is imported here: ``import nextword`` passes through on its way to ``nextword.model.registration``.
"""
