"""Private to task ``seq2seq``: pairs in tokens and as rows, a small T5, what is copied from a source."""
