"""Models of transformers with a head of ours.

In the order in which they act:

- ``registration.py`` makes the Auto classes of transformers know our models, from ``import nextword`` on.
- ``configuration.py`` has their configuration, and the file in a saved folder that leads back to the library.
- ``attach.py`` makes a model of an ordinary one, or loads one from its folder.
- ``wrapped_model.py`` declares the parts that a wrapped model has.
- ``transformers_mixin.py`` answers for the backbone what transformers asks, makes, casts and fills the weights, and
  says what an adapter of peft takes along.
- ``modeling.py`` has the classes, and leads a pass from the arguments to the loss.
- ``forward/`` has the steps of that pass, a file each.
- ``head_cache/`` is what a head keeps between steps.
- ``conditioned_model.py`` has what a model needs for an auxiliary text.
- ``sequence_level_batch.py`` makes the batch that a ``+seq`` update learns from.
- ``training_modes.py`` keeps parts in training and parts in evaluation, as their owner set them.
- ``generation.py`` hands on what ``generate`` must tell a head, and can leave out the constraints of a pretrained
  model's own settings.
- ``drafting/`` writes several words a pass.
- ``batching.py`` has the entry points of transformers' continuous batching, and says what it cannot do with a model.
- ``saving.py`` writes a model as a folder.
- ``card.py`` writes the model card in that folder.

Nothing is imported here: ``import nextword`` passes through on its way to ``nextword.model.registration``.
"""
