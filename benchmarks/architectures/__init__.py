"""Every language model of transformers, made tiny, under every head: what works, what is refused, what fails.

In the order in which they act: ``names`` lists the architectures, ``shrunk`` makes a configuration small,
``tiny_model`` builds the model, ``probes`` has its inputs, ``abilities`` says what is asked, ``bare`` asks it of the
model itself, ``cells`` of the model with a head, ``one_architecture`` does so with every head, ``processes`` keeps a
crash from ending the run, and ``page`` writes it all down.
"""
