"""Code that the commands share: groups of options, one-line errors, and progress on a terminal."""
