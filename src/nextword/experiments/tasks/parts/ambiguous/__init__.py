"""Private to task ``ambiguous``: pairs of words, templates, invented stories, measures of prompts with two answers."""
