"""What a model predicts at every token of one text, and which components and positions contribute (``nw.trace``)."""
