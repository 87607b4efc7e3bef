"""Models of transformers with a head of ours.

- ``attach``, ``loading``, ``config``, ``registration``: how one is made, saved and found by transformers.
- ``modeling``: its classes, and the line of a pass from the arguments to the loss; ``forward/`` has the steps.
- ``delegation``, ``conditioned``, ``adapted``: what the backbone answers, an auxiliary text needs, peft takes along.
- ``generation``, ``redraw``, ``unconstrained``: what ``generate`` hands on, and how it may be asked.
- ``sequence_update``: the batch that a ``+seq`` update learns from.

Nothing is imported here: ``import nextword`` passes through on its way to :mod:`nextword.model.registration`.
"""
