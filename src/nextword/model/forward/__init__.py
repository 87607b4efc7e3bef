"""The steps of one forward pass. ``nextword.model.modeling`` calls them; each makes one frozen object from the last.

The arguments become a ``ForwardBatch``. From it come ``AuxiliaryStates`` and ``BackboneOutput``, and from these
``HeadInputs``, which makes the contexts for the head.
"""
