"""Products of states with an output embedding: with all rows, with picked rows, by groups of rows."""
