"""The audit of anybody's next-word distribution.

A scorer keeps a contract (``scorer.py``), a model of transformers is one without knowing (``model_reading.py``). Both
are read (``scorer_reading.py``) by the properties of the checker and by some that only matter for what is not ours.
What fails becomes a finding with a name (``faults.py``) and the smallest input that shows it (``shrinking.py``).
"""
