"""The modifiers of objectives: what a ``+`` in an objective spec may be followed by."""

from nextword.settings.specs import Modifiers

modifiers = Modifiers()
"""All by name. Each fills a field of an objective's config, and an objective takes those whose fields it has."""
