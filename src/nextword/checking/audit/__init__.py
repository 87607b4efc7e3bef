"""The audit of anybody's next-word distribution.

In the order in which they act:

1. ``auditing.py`` leads: it asks every property that it can ask, in the order of causes.
2. ``scorer.py`` has the contract of a scorer, how distributions are read off one, and a model of lm-eval as one.
3. ``scorer_properties.py`` asks whether a scorer's ways tell one story, whether batches and repetition change nothing,
   and whether every byte is counted once.
4. ``sampling_properties.py`` asks whether probabilities add up to 1, whether drawn tokens are as frequent as they say,
   and how often an audit is wrong.
5. ``model_properties.py`` reads a model of transformers, which is a scorer without knowing it, and asks about its loss
   and other precisions.
6. ``faults.py`` names what fails.
7. ``shrinking.py`` finds the smallest input that shows it.
"""
