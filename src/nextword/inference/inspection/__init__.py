"""What a model says about every token of one text, and where each probability came from. It is shown by ``report``.

- ``trace_example.py``: ``nw.trace``, from a model and a text to a trace;
- ``long_example.py``: a text longer than the model can see, in windows;
- ``continuation.py``: the text written by the model itself, in place of a given one;
- ``text_pieces.py``: which part of the text each token stands for;
- ``trace.py``: the trace as JSON, as a table, as a page.
"""
