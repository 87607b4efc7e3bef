"""The steps of one forward pass, called by ``nextword.model.modeling``; each turns one frozen object into the next.

Arguments -> ``ForwardBatch`` -> ``AuxiliaryStates`` and ``BackboneOutput`` -> ``HeadInputs``, which makes the contexts
for the head.
"""
