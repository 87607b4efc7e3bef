"""transformers' own tests of models, run on models of transformers and on the same models with heads.

In the order in which they act: ``their_tests`` finds transformers' tests, ``backbones`` has the models, ``derived``
makes a test class of a model with a head, ``every_test_class`` is the module that pytest collects, ``one_class`` runs
one of its classes, ``verdicts`` tells a fault from a difference by design (``by_design.toml``), and ``page`` writes it
all down.
"""
