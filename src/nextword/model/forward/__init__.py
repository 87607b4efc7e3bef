"""One pass, in the order in which ``nextword.model.modeling`` leads it; each step makes one frozen value of another.

1. ``argument_checks.py`` looks at every argument by itself, makes ids int64, and checks later that every token and
   label is in the vocabulary.
2. ``inputs.py`` splits the arguments by whom they concern (``PassInputs``), and finds what earlier passes left, the KV
   cache and the head's history (``Past``).
3. ``packing.py`` lays the texts of a row that holds several out in rows of their own (``TextRows``), where the backbone
   keeps them apart, and says where a compiled pass leaves its graph.
4. ``padding_and_targets.py`` decides what is padding, which positions count and what is to be predicted (``Sides``).
5. ``backbone_pass.py`` makes what a conditioner needs of its text (``AuxiliarySide``), runs the backbone up to its
   output layer (``BackbonePass``), and has what the routers of a backbone with experts add to the loss.
6. ``head_inputs.py`` makes what the head is given (``HeadInputs``), of which contexts are cut at some positions or at
   all, also where a serving engine packs many requests in one row.
7. ``output_layer.py`` stops the backbone at its output layer, and turns states into scores for the head, with all that
   the backbone does to its scores afterwards.
"""
