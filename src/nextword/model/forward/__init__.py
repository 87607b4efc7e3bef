"""One pass, in the order in which ``nextword.model.modeling`` leads it; each step makes one frozen value of another.

1. ``batch.py`` makes the batch (``ForwardBatch``) of the arguments, with ``argument_checks.py`` for each by itself and
   ``packing.py`` for rows that hold several texts.
2. ``backbone.py`` makes what a conditioner needs of its text (``AuxiliaryStates``), runs the backbone up to its output
   layer (``BackboneOutput``), and has what the routers of a backbone with experts add to the loss.
3. ``head_inputs.py`` makes what the head is given (``HeadInputs``), of which contexts are cut at some positions or at
   all, also where a serving engine packs many requests in one row.
4. ``output_layer.py`` stops the backbone at its output layer, and turns states into scores for the head, with all that
   the backbone does to its scores afterwards.
"""
