"""What a model says about every token of one text, and where each probability came from (``nw.trace``)."""
