"""What a model says about every token of one text, and where each probability came from.

The pages of ``nextword.results.report`` show it. In the order in which they act:

1. ``trace_example.py`` makes a trace of a model and a text (``nw.trace``), also of a text that the model writes itself
   or that is longer than it can see, and says which part of the text each token stands for.
2. ``trace.py`` has the trace as JSON, as a table, as a page.
"""
