"""Entity precision: share of a summary's named entities that occur in its document."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.results.records import Measure

# -- Names found by their capital letters, for use without a trained recogniser.

_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\b[A-Z]\.)\s+|\n")
_TITLES = frozenset({"mr", "mrs", "ms", "dr", "st"})
_POSSESSIVE = re.compile("['’]s$")
_WORD = re.compile(r"[^\W_](?:[\w.'’-]*[^\W_])?")


class CapitalisedNames:
    """Finds names: runs of capitalised words that are not stop words. A single word at a sentence's start is ignored.

    Examples:
        >>> texts = ["Rain fell. The Bank of England, in London, saw Mr. Smith's dog. Ann Lee did not."]
        >>> list(CapitalisedNames().entities(texts))
        [['Bank', 'England', 'London', 'Smith', 'Ann Lee']]
    """

    found_by = "runs of capitalised words"

    @property
    def stop_words(self) -> Collection[str]:
        """English stop words, from spaCy."""
        from spacy.lang.en.stop_words import STOP_WORDS

        return STOP_WORDS

    def entities(self, texts: Sequence[str], batch_size: int = 64) -> Iterator[list[str]]:
        """Yield the list of names in each of ``texts``, with one entry per mention. ``batch_size`` has no effect."""
        stop_words = self.stop_words
        for text in texts:
            yield [name for sentence in _SENTENCE_END.split(text) for name in _names(sentence, stop_words)]


def _names(sentence: str, stop_words: Collection[str]) -> list[str]:
    words = list(_WORD.finditer(sentence))
    runs: list[list[re.Match[str]]] = []
    for word in words:
        known = word[0].lower()
        abbreviation = len(word[0]) > 1 and word[0].isupper()  # "US" is not a stop word
        if not word[0][0].isupper() or known in _TITLES or (known in stop_words and not abbreviation):
            continue
        if runs and sentence[runs[-1][-1].end() : word.start()].isspace():
            runs[-1].append(word)
        else:
            runs.append([word])
    return [" ".join(_POSSESSIVE.sub("", word[0]) for word in run) for run in runs if run != words[:1]]


# -- Entity precision.


TYPES = ("PERSON", "FAC", "GPE", "ORG", "NORP", "LOC", "EVENT")

# Components of trained pipelines. A recogniser does not read their results, but a ruler or a user's component might.
_UNREAD = {"tagger", "parser", "senter", "morphologizer", "attribute_ruler", "lemmatizer", "trainable_lemmatizer"}
_NO_ENTITIES = {*_UNREAD, "tok2vec", "transformer", "sentencizer", "textcat", "textcat_multilabel"}


def found_in(entity: str, document: str, stop_words: Collection[str]) -> bool:
    """Whether the name ``entity`` occurs in ``document``, ignoring case.

    An entity occurs if the document has two or more neighbouring words of the entity, or one word of the entity that is
    not in ``stop_words``. The match may be part of a longer word. "US" in capitals does not count as a stop word.

    Source: the code of Nan et al. (2021), which tests the longest run of words first, with the same result.

    >>> stop_words = {"the", "of", "us"}
    >>> [found_in(name, "Mr Obama of Chicago met US envoys", stop_words) for name in ("Barack Obama", "The Who", "US")]
    [True, False, True]
    """
    place, words = document.lower(), entity.split()
    return any(f"{one} {following}".lower() in place for one, following in pairwise(words)) or any(
        word.lower() in place for word in words if word == "US" or word.lower() not in stop_words
    )


def entity_precision(
    entities: Sequence[Sequence[str]], documents: Sequence[str], stop_words: Collection[str]
) -> Float[np.ndarray, "N 2"]:
    """For each of N summaries, the number of its ``entities`` found in its document, and their total number, (N, 2).

    Entity precision is P_ent = (1 / #summaries with entities) · Σ (found / all). Pooled, it is Σ found / Σ all.

    >>> entity_precision([["Ann Lee", "Rome"], []], ["Ann left Paris", "Rain"], {"the"}).tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    rows = [
        (sum(found_in(name, document, stop_words) for name in names), len(names))
        for names, document in zip(entities, documents, strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


class Recogniser:
    """A spaCy ``pipeline`` (name or path) that finds named entities with one of the labels ``types``.

    Raises:
        ValueError: If the pipeline is not installed or has no component that finds entities.
    """

    def __init__(self, pipeline: str, types: Collection[str] = TYPES) -> None:
        import spacy

        try:
            self._nlp: Any = spacy.load(pipeline)
        except OSError:
            raise ValueError(
                f"entities.pipeline: must be an installed spaCy pipeline ('{pipeline}' given). Install it (python -m "
                "spacy download en_core_web_lg) or give the folder of one (entities.pipeline=PATH)."
            ) from None
        made_by = {name: self._nlp.get_pipe_meta(name).factory for name in self._nlp.pipe_names}
        if set(made_by.values()) <= _NO_ENTITIES:
            raise ValueError(
                f"entities.pipeline: '{pipeline}' finds no named entities; its components are "
                f"{', '.join(made_by) or 'none'}. It needs one such as 'ner' or 'entity_ruler'."
            )
        if set(made_by.values()) <= {*_NO_ENTITIES, "ner"}:
            self._nlp.select_pipes(disable=[name for name, factory in made_by.items() if factory in _UNREAD])
        self._types = tuple(types)

    @property
    def found_by(self) -> str:
        """Language, name and version of the pipeline, and the entity labels that count."""
        return f"spaCy {'{lang}_{name} {version}'.format_map(self._nlp.meta)}; {', '.join(self._types)}"

    @property
    def stop_words(self) -> Collection[str]:
        """Stop words of the pipeline's language."""
        words: Collection[str] = self._nlp.Defaults.stop_words
        return words

    def entities(self, texts: Sequence[str], batch_size: int = 64) -> Iterator[list[str]]:
        """For each of ``texts``, yield the list of its entities with one of the labels, one entry per mention."""
        for found in self._nlp.pipe(texts, batch_size=batch_size):
            yield [entity.text for entity in found.ents if entity.label_ in self._types]


BUILT_IN = {"capitals": CapitalisedNames}
"""Methods that need no spaCy pipeline, by their names in the setting ``pipeline``."""


@lru_cache(maxsize=1)
def _recogniser(pipeline: str, types: tuple[str, ...]) -> CapitalisedNames | Recogniser:
    # cached, because all systems of an evaluation use the same recogniser, and loading its vectors takes seconds
    return BUILT_IN[pipeline]() if pipeline in BUILT_IN else Recogniser(pipeline, types)


class EntitiesConfig(MetricConfig):
    """Settings of entity precision."""

    pipeline: str = "en_core_web_lg"
    """Name or path of a spaCy pipeline. "capitals": find runs of capitalised words, without a model."""
    types: tuple[str, ...] = TYPES
    """Labels of the entities that count."""


@registry.register("entities")
class EntityPrecision(Metric):
    """Share of a summary's named entities, found by spaCy, that occur in its document. Example: ``entities``."""

    Config = EntitiesConfig
    needs = ("text",)
    votes = ("entity-precision",)
    packages = ("spacy",)
    group, goal, decimals = metric.FAITHFULNESS, "higher", 1

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        if not self.config.types:
            raise ValueError("entities.types: name at least one label, for example PERSON")
        self._recogniser = _recogniser(self.config.pipeline, self.config.types)
        self._texts: list[str] = []
        self._documents: list[str] = []

    @classmethod
    def on_request(cls) -> str | None:
        """Reason why ``metrics="all"`` leaves this metric out: it needs a spaCy pipeline."""
        return "runs a spaCy pipeline, on summaries only; to compute it, name one as entities.pipeline"

    def add(self, sample: Sample) -> None:
        """Read the text and its document: ``source``, or ``prompt`` if there is no source."""
        self._texts.append(sample.need("text", "entities"))
        document = sample.prompt if sample.source is None else sample.source
        self._documents.append(sample.need("source", "entities") if document is None else document)

    def result(self) -> dict[str, Score]:
        """``entity-precision``, a mean of texts' shares, and ``entity-precision-pooled``, a share of all entities."""
        counts = entity_precision(self._entities(), self._documents, self._recogniser.stop_words)
        found, all_ = counts[:, 0], counts[:, 1]
        with np.errstate(invalid="ignore"):
            shares = found / all_
        return {
            "entity-precision": Score.mean(self._measure("", "averaged over texts that have any"), shares),
            "entity-precision-pooled": Score.ratio(self._measure(" (pooled)", "over all texts together"), found, all_),
        }

    def _entities(self) -> list[list[str]]:
        found = []
        progress: Callable[[str, int, int], None] = self.setup.progress
        for number, names in enumerate(self._recogniser.entities(self._texts, self.setup.batch_size), 1):
            found.append(names)
            if number % self.setup.batch_size == 0 or number == len(self._texts):
                progress("entities", number, len(self._texts))
        return found

    def _measure(self, form: str, how: str) -> Measure:
        return self.measure(
            f"Entity precision{form}",
            f"fraction of entities ({self._recogniser.found_by})",
            f"Share of the named entities of a text that occur, in full or in part, in its document, {how}.",
        )
