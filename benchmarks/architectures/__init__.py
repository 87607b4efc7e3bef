"""Every language model of transformers, made tiny, under every head: what works, what is refused, what fails.

In the order in which they act: ``names`` lists the architectures, ``shrunk`` makes a configuration small, ``tiny_model``
builds the model, ``probes`` has its inputs, ``bare`` finds out what the model can do by itself, ``checks`` asks the same
with a head, ``cells`` puts one architecture through all heads, ``processes`` keeps a crash from ending the run, and
``page`` writes it all down.
"""
