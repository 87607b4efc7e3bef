"""What a text is, for settings and for files: nothing else of ours, and no library."""

from nextword.characters.whole_characters import expect_whole_characters

__all__ = ["expect_whole_characters"]
