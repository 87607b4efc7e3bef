"""How likely texts are to models, as tables for the terminal and as a table of values separated by commas."""
