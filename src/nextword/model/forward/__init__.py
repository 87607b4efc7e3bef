"""One pass, in order: checked inputs, auxiliary text, backbone up to its output layer, contexts, targets, loss."""
