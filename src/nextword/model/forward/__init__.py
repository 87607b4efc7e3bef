"""One pass, in the order in which ``nextword.model.modeling`` leads it; each step makes one frozen value of another.

Arguments -> ``ForwardBatch`` -> ``AuxiliaryStates`` and ``BackboneOutput`` -> ``HeadInputs``, out of which contexts are
cut for the head.
"""
