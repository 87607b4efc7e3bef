"""The modifiers of heads: what a ``+`` in a head spec may be followed by."""

from nextword.settings.specs import Modifiers

modifiers = Modifiers()
"""All by name. Each fills a field of a head's config, and a head takes those whose fields it has."""
