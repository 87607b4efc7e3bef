"""One model is trained: what ``transformers.Trainer`` does not do itself.

In the order in which they act, called by ``one_training.py``:

1. ``method_settings.py`` says what the model is: head, objective, conditioner.
2. ``settings.py`` says how it is trained.
3. ``trainer_arguments.py`` says the same in Trainer's words.
4. ``collator.py`` pads rows of ids to batches, reads the auxiliary texts of a frozen encoder once, and tells the data
   which epoch begins.
5. ``trainable.py`` chooses which parameters are trained, with adapters (LoRA) in the backbone where they are asked for.
6. ``sharding.py`` spreads a model over processes, and gathers it again.
7. ``learning_rates.py`` is the Trainer, with learning rates for parts of the model.
8. ``segments.py`` has Trainers that read the rows of a text in order, or rows that are alike, so that a head sees back.
9. ``resume.py`` says whether the folder holds checkpoints of this very training and which of them is whole, and puts
   the numbers of callbacks into checkpoints.
10. ``cost.py`` measures time and memory of each step.
11. ``loss_curve.py`` keeps the curve, stops what diverges or improves no more, and says what came of the training.
"""
