"""DAE: a classifier judges which grammatical relations of a summary its document supports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nextword.evaluation.judges.classifier import ClassifierConfig
from nextword.evaluation.judges.entailment import Entailment
from nextword.evaluation.metrics import MetricConfig, Sample, Score, Setup, registry

IGNORED = frozenset({"punct", "root", "det", "case", "aux", "auxpass", "dep", "cop", "mark"})
"""Relations that are ignored, in lower case, as in the published code."""


class DaeConfig(ClassifierConfig):
    """Settings of DAE."""

    pipeline: str = "en_core_web_lg"
    """A spaCy pipeline with a parser. It is an installed package or a folder."""


def arcs_of(document: Any) -> Iterator[str]:
    """Yield the grammatical relations ("arcs") of ``document``, which spaCy has parsed, as ``"head child relation"``.

    Relations in ``IGNORED`` are left out.
    """
    for token in document:
        if token.head is not token and token.dep_.lower() not in IGNORED and not token.is_space:
            yield f"{token.head.text} {token.text} {token.dep_}"


@registry.register("dae")
class Dae(Entailment):
    """DAE-style: share of summaries with a word relation that the document does not support. Example: ``dae``."""

    Config = DaeConfig
    needs = ("source", "text")
    packages = ("spacy",)
    title = "DAE"
    asks = "says that they follow from the document"
    goal = "lower"

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._parse = _load_parser(self.config.pipeline)

    def evidence(self, sample: Sample) -> str:
        """The document, which is the field ``source`` of ``sample``."""
        return str(sample.need("source", "dae"))

    def claims(self, text: str) -> list[str]:
        """The arcs of the text, each of which is one claim."""
        return list(arcs_of(self._parse(text)))

    def result(self) -> dict[str, Score]:
        """``dae``, the share of summaries with an unsupported arc, and ``dae-arcs``, the share of supported arcs."""
        answers = self.answers()
        sums = [0 if one is None else int(one.chosen.sum()) for one in answers]
        counts = [0 if one is None else len(one.chosen) for one in answers]
        wrong = [None if one is None else float(not one.chosen.all()) for one in answers]
        errors = self.measure(
            "DAE",
            "fraction of texts",
            "DAE-style: share of summaries with a grammatical relation that does not follow from the document by the "
            f"classifier ({self.described()}); an empty text counts as wrong.",
        )
        arcs = self.measure(
            "DAE, arcs",
            "fraction of arcs",
            "DAE-style: share of all grammatical relations of the summaries that follow from the document by the "
            f"classifier ({self.described()}).",
            goal="higher",
        )
        found = {"dae": self.score(errors, wrong, empty=1.0)}
        if any(counts):  # false if all texts are empty: they count as wrong, but have no arcs
            found["dae-arcs"] = Score.ratio(arcs, sums, counts)
        return found

    def described(self) -> str:
        """Description for the report: model, output that means "consistent", maximum number of tokens, and parser."""
        return f"{super().described()}, arcs by {Path(self.config.pipeline).name}"


def _load_parser(pipeline: str) -> Any:
    import spacy

    try:
        loaded = spacy.load(pipeline, exclude=["ner", "lemmatizer"])
    except (OSError, ValueError, ImportError) as fault:
        raise ValueError(
            f"dae.pipeline: '{pipeline}' must be a spaCy pipeline that can be loaded ({fault}). Install one (python "
            "-m spacy download en_core_web_lg), or give the folder of one that has a parser."
        ) from None
    if not loaded.has_pipe("parser"):
        raise ValueError(
            f"dae.pipeline: '{pipeline}' has no parser, only {', '.join(loaded.pipe_names) or 'nothing'}; "
            "name a pipeline that has one, for example en_core_web_lg"
        )
    return loaded
