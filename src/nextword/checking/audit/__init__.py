"""The audit of anybody's next-word distribution.

In the order in which they act, called by ``auditing.py``:

1. ``scorer.py`` has the contract of a scorer, reads distributions off one, and makes one of a model of lm-eval.
2. ``model_properties.py`` reads a model of transformers, which is a scorer without knowing it, and has properties of
   its loss and of other precisions.
3. ``sampling_properties.py`` has properties of sums of probabilities and of drawn tokens, and says how often an audit
   is wrong.
4. ``scorer_properties.py`` has what else matters for what is not ours: one story told in several ways, texts side by
   side, bits per byte, asking again.
5. ``shrinking.py`` finds the smallest input that shows a fault.

The properties of the checker are asked too.
"""
