"""The steps of one forward pass. ``nextword.model.modeling`` calls them; each makes one frozen object for the next.

First the arguments become a ``ForwardBatch``. From it ``AuxiliaryStates`` and then ``BackboneOutput`` are computed, and
from these ``HeadInputs``, which makes the contexts for the head.
"""
