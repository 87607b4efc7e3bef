"""Files of text and tables as they lie on disk, plain or packed: opened, cut into lines and rows, faults named."""
