"""Topic match: divergence between the topic distributions of a text and its reference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.evaluation.metrics.sample import Sample
from nextword.settings.config import Seed


def jensen_shannon(p: Float[np.ndarray, "... K"], q: Float[np.ndarray, "... K"]) -> Float[np.ndarray, "..."]:
    """Jensen-Shannon divergence, in bits, of each row of ``p`` and the same row of ``q``, (N,). 0: equal, 1: disjoint.

        JSD(p, q) = KL(p || m) / 2 + KL(q || m) / 2,    m = (p + q) / 2,    with logarithms of base 2

    Source: Lin (1991). Differs from ``scipy.spatial.distance.jensenshannon``, which returns the square root of the
        divergence, and NaN if rounding gives a tiny negative divergence.

    >>> jensen_shannon(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]]))
    array([1., 0.])
    """
    from scipy.special import rel_entr

    middle = (p + q) / 2
    bits: Float[np.ndarray, "..."] = (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1) / (2 * np.log(2))
    return np.asarray(np.maximum(bits, 0.0))


class Topics:
    """A topic model of ``documents``: latent Dirichlet allocation (Blei et al., 2003) over word counts.

    The other arguments are settings of ``TopicsConfig``. The words are those of scikit-learn's ``CountVectorizer``:
    lower-case runs of two or more letters, digits or underscores of any script. No stop words are removed.

    Raises:
        ValueError: If no word occurs in ``min_df`` documents.

    >>> topics = Topics(["cats purr", "cats purr", "stocks fall", "stocks fall"], topics=2)
    >>> cats, purr, bonds = topics.of(["cats purr", "purr", "bonds"])
    >>> bool(cats.argmax() == purr.argmax()), bool(np.isnan(bonds).all())
    (True, True)
    """

    def __init__(
        self,
        documents: Sequence[str],
        topics: int = 50,
        seed: int = 0,
        min_df: int = 2,
        iterations: int = 10,
        jobs: int = 1,
    ) -> None:
        from sklearn.decomposition import LatentDirichletAllocation
        from sklearn.feature_extraction.text import CountVectorizer

        self._vectorizer = CountVectorizer(min_df=min_df)
        try:
            if len(documents) < min_df:
                raise ValueError("fewer documents than that")
            counts = self._vectorizer.fit_transform(documents)
        except ValueError as fault:
            raise ValueError(
                f"topics: no word occurs in {min_df} of the {len(documents)} documents to fit on ({fault})"
            ) from None
        self._model = LatentDirichletAllocation(topics, random_state=seed, max_iter=iterations, n_jobs=jobs).fit(counts)

    def of(self, texts: Sequence[str]) -> Float[np.ndarray, "N K"]:
        """Topic distribution of each text, (N, K). NaN for a text without words of the model's vocabulary."""
        counts = self._vectorizer.transform(texts)
        shares: Float[np.ndarray, "N K"] = self._model.transform(counts)
        shares[np.diff(counts.indptr) == 0] = np.nan
        return shares


@lru_cache(maxsize=2)
def _fitted(documents: tuple[str, ...], topics: int, seed: int, min_df: int, iterations: int, jobs: int) -> Topics:
    # cached, because all systems of an evaluation use the topics of the same references
    return Topics(documents, topics, seed, min_df, iterations, jobs)


def read_corpus(path: Path) -> list[str]:
    """Read the documents in ``path``, one per line. In a ``.jsonl`` file, a line is a string or an object with "text".

    Raises:
        ValueError: If the file cannot be read, or a line has another form.
    """
    try:
        with path.open(encoding="utf-8") as file:
            # splitlines is not used, because it also splits at characters inside a line (U+2028, form feed)
            lines = [line.rstrip("\n") for line in file]
    except (OSError, UnicodeDecodeError) as fault:
        raise ValueError(f"topics.corpus: {path} cannot be read: {fault}") from None
    if path.suffix != ".jsonl":
        return [line for line in lines if line.strip()]
    return [_document(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _document(line: str, place: str) -> str:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as fault:
        raise ValueError(f"{place}: no JSON: {fault}") from None
    text = content.get("text") if isinstance(content, dict) else content
    if not isinstance(text, str):
        raise ValueError(f'{place}: must be a JSON string or an object with a "text" ({line[:60]!r} given)')
    return text


class TopicsConfig(MetricConfig):
    """Settings of the topic match."""

    topics: int = Field(default=50, ge=2, le=10_000)
    """Number of topics, K."""
    seed: Seed = 0
    """Seed of the fit."""
    min_df: int = Field(default=2, ge=1)
    """Minimum number of documents in which a word must occur."""
    iterations: int = Field(default=10, ge=1, le=100_000)
    """Number of passes over the documents while fitting."""
    jobs: int = Field(default=1, ge=1, le=1024)
    """Number of processes for fitting. The result depends on this number: each process has its own random
    initialisation."""
    corpus: str | None = None
    """Path of the file of documents to fit on, one per line (or ``.jsonl``: strings, or objects with a "text"). None:
    the references of the samples."""
    root: bool = False
    """Whether to report the Jensen-Shannon distance, which is the square root of the divergence."""


@registry.register("topics")
class TopicMatch(Metric):
    """Topic match: divergence between the LDA topics of a text and of its reference. Example: ``topics``."""

    Config = TopicsConfig
    needs = ("text", "references")
    packages = ("sklearn",)
    group, goal, decimals = metric.TOPICS, "lower", 3

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._corpus = None if self.config.corpus is None else read_corpus(Path(self.config.corpus))
        self._texts: list[str] = []
        self._references: list[list[str]] = []

    def add(self, sample: Sample) -> None:
        """Read and keep the text and its references, because the topics are fitted on all references."""
        self._texts.append(sample.need("text", "topics"))
        self._references.append(sample.need("references", "topics"))

    def result(self) -> dict[str, Score]:
        """The score, with the key ``topics-jsd``."""
        config: TopicsConfig = self.config
        references = [reference for found in self._references for reference in found]
        documents = references if self._corpus is None else self._corpus
        try:
            topics = _fitted(
                tuple(documents), config.topics, config.seed, config.min_df, config.iterations, config.jobs
            )
        except ValueError as fault:
            raise UndefinedError(str(fault)) from None
        # mean divergence of each text from its references with known words; NaN if no reference has such words
        owner = np.repeat(np.arange(len(self._texts)), [len(found) for found in self._references])
        each = jensen_shannon(topics.of(self._texts)[owner], topics.of(references))
        each = np.sqrt(each) if config.root else each
        known, size = ~np.isnan(each), len(self._texts)
        with np.errstate(invalid="ignore"):
            values = np.bincount(owner[known], each[known], size) / np.bincount(owner[known], minlength=size)
        name = "distance" if config.root else "divergence"
        fitted = "the references" if config.corpus is None else Path(config.corpus).name
        measure = self.measure(
            f"Topic {name}",
            f"{'square root of bits' if config.root else 'bits'} ({config.topics} topics, seed {config.seed})",
            f"Jensen-Shannon {name} between the topic distributions of a text and of its reference, averaged "
            f"over texts; topics by latent Dirichlet allocation fitted on {fitted}, words in at least {config.min_df} "
            f"documents, {config.iterations} passes.",
        )
        return {"topics-jsd": Score.mean(measure, values)}
