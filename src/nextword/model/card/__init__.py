"""Model cards: the ``README.md`` of a saved model, which the Hub shows and searches.

- ``card_facts.py``: what is known of a model beside its configuration: data, command, numbers.
- ``hub_metadata.py``: the block at its top that the Hub reads.
- ``card_text.py``: the whole card.
"""

from __future__ import annotations

from nextword.model.card.card_facts import CardData, CardFacts, CardResult
from nextword.model.card.card_text import card_text

__all__ = ["CardData", "CardFacts", "CardResult", "card_text"]
