"""The names of all faults that an audit can find. They are stable: programs may compare them."""

from __future__ import annotations

FAULTS = {
    "negative": "a number is the logarithm of no probability: NaN, or above 0",
    "sum": "the probabilities of all tokens do not add up to 1",
    "not-repeatable": "the same question has another answer when it is asked again",
    "scored-before": "a text that was scored before is more probable the second time",
    "state-left-over": "a text that was scored before changes the answers about another one",
    "future": "what comes later in a text, the scored token included, changes what was said before",
    "batch-neighbour": "the other texts of a batch change the answers about a text",
    "order": "the place of a text in its batch changes the answers about it",
    "padding": "the lengths of the other texts, or the padding that follows from them, change the answers",
    "position-ids": "saying where tokens stand, as they stand anyway, changes the answers",
    "packed-row": "another text in the same row, told apart by position_ids, changes the answers",
    "source-padding": "padding of the source changes the answers",
    "cache": "reading in steps, with what is kept between them, gives other answers than reading at once",
    "cache-reordered": "what is kept between steps does not move along when beam search reorders",
    "score-is-not-its-steps": "what a text is scored with is not what the steps through it say",
    "total": "the total of a text is not the sum over its tokens, each counted once",
    "unscored-token": "a token has no probability, so a text with it cannot be scored",
    "sampling": "drawn tokens are not as frequent as their probabilities say",
    "bytes": "bits per byte do not count every byte of the text once",
    "precision": "the answers change by more than rounding when the model computes in another precision",
    "distribution": "two answers about one distribution contradict each other",
    "auxiliary-text": "an auxiliary text is ignored, or what stands beside it is not",
}
"""Each with what it means, in the order in which they are looked for: an earlier one can be the cause of a later."""
