"""The steps of one forward pass. ``nextword.model.modeling`` calls them; each makes one frozen object from the last.

Arguments -> ``ForwardBatch`` -> ``AuxiliaryStates`` and ``BackboneOutput`` -> ``HeadInputs``, which makes the contexts
for the head.
"""
