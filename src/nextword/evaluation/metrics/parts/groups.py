"""Headings over metrics that belong together, in reading order."""

from __future__ import annotations

LIKELIHOOD = "Likelihood"
NEXT_WORD = "Next word"
REPETITION = "Repetition"
DIVERSITY = "Diversity"
FREQUENCY = "Frequency"
CLOSENESS = "Closeness to human text"
COHERENCE = "Coherence"
SUMMARY = "Summaries and tables"
FAITHFULNESS = "Faithfulness"
TOPICS = "Topics"

ORDER = (LIKELIHOOD, NEXT_WORD, CLOSENESS, DIVERSITY, REPETITION, FREQUENCY, COHERENCE, SUMMARY, FAITHFULNESS, TOPICS)
