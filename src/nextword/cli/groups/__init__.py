"""Commands that have subcommands, such as ``nextword survey make`` and ``nextword ngram build``."""
