"""One pass, in the order in which ``nextword.model.modeling`` leads it; each step makes one frozen value of another.

- ``argument_checks.py``: every argument by itself; ids as int64.
- ``pass_inputs.py``: the arguments split by whom they concern (``PassInputs``).
- ``packing/``: several texts in one row, each laid out in a row of its own (``TextRows``).
- ``past.py``: what earlier passes left, the KV cache and the head's history (``Past``).
- ``padding_and_targets.py``: what is padding, which positions count, what is to be predicted (``Sides``).
- ``vocabulary_check.py``: every token and label is in the vocabulary.
- ``auxiliary_side.py``: what a conditioner makes of its text (``AuxiliarySide``).
- ``backbone_pass.py``: the backbone up to its output layer (``BackbonePass``), which ``output_tap.py`` stops there.
- ``head_inputs.py``: what the head is given (``HeadInputs``); it is asked for the contexts of some places or of all.
- ``router_loss.py``: what a backbone with experts adds to the loss of the head.
- ``score_adjustments.py``: what the backbone does to its scores afterwards.
- ``output_layer.py``: from states to scores, for the head.
"""
