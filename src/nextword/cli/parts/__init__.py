"""Shared by the commands: groups of options, one-line errors, progress on a terminal."""
