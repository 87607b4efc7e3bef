"""Coherence: similarity of the sentence embeddings of prompt and continuation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.evaluation.judges.checkpoints import is_blank, note_on_empty
from nextword.evaluation.judges.sentence_encoder import Pooling, SentenceEncoder
from nextword.evaluation.metrics import Metric, MetricConfig, Sample, Score, Setup, UndefinedError, metric, registry
from nextword.runtime.pretrained import packaged_encoder


def row_cosines(left: Float[np.ndarray, "N D"], right: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N"]:
    """Cosine of each row of ``left`` with the row of ``right`` at the same index, shape (N,). NaN if a row is zero.

    The time is linear in N. Published scripts compute the N x N matrix of all pairs, whose diagonal has these values.

    >>> row_cosines(np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[2.0, 0.0], [4.0, -3.0]])).tolist()
    [1.0, 0.0]
    """
    left, right = left.astype(np.float64), right.astype(np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines: Float[np.ndarray, "N"] = np.einsum("nd,nd->n", left, right) / np.where(lengths > 0, lengths, np.nan)
    return cosines


class CoherenceConfig(MetricConfig):
    """Settings of coherence."""

    encoder: str | None = None
    """Folder or hub name of a sentence encoder. None: the packaged all-MiniLM-L6-v2."""
    pooling: Pooling | None = None
    """Pooling of token states into one vector: "cls", "mean" or "pooler". None: the pooling that the checkpoint
    specifies."""
    max_length: int = Field(default=512, ge=3)
    """Maximum number of tokens read per text; the encoder's limit if that is lower."""


@registry.register("coherence")
class Coherence(Metric):
    """Coherence: mean cosine similarity of the embeddings of prompt and continuation. Example: ``coherence``."""

    Config = CoherenceConfig
    needs = ("prompt", "text")
    packages = ("sentence_transformers",)
    group, goal, decimals = metric.COHERENCE, "higher", 2

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._encoder = SentenceEncoder(
            self.config.encoder, self.config.pooling, self.config.max_length, setup, "coherence.encoder"
        )
        self._pairs: list[tuple[str, str]] = []

    @classmethod
    def on_request(cls) -> str | None:
        """Reason why ``metrics="all"`` leaves this metric out. None if the packaged sentence encoder is installed."""
        if packaged_encoder() is not None:
            return None
        return "runs a sentence encoder; to compute it, name one as coherence.encoder"

    def add(self, sample: Sample) -> None:
        """Read the prompt and the text."""
        self._pairs.append((sample.need("prompt", "coherence"), sample.need("text", "coherence")))

    def result(self) -> dict[str, Score]:
        """The score, with the key ``coherence``."""
        positions = [position for position, pair in enumerate(self._pairs) if all(text.strip() for text in pair)]
        cosines = np.full(len(self._pairs), np.nan)
        if positions:
            texts = [text for position in positions for text in self._pairs[position]]
            reading = self._encoder.reading(texts)
            if reading is not None and reading.fault is not None:
                raise UndefinedError(
                    f"coherence: {self._encoder.name} must be able to read these texts ({reading.fault}); set "
                    f"coherence.encoder to an encoder of their language or "
                    f"a multilingual one"
                )
            rows = self._encoder.embed(texts)
            cosines[positions] = row_cosines(rows[::2], rows[1::2])
        pooling = f", {self.config.pooling} pooling" if self.config.pooling else ""
        measure = self.measure(
            "Coherence",
            "cosine x 100",
            f"Coherence: cosine of the embeddings ({self._encoder.name}{pooling}, at most {self.config.max_length} "
            "tokens) of prompt and text, times 100, averaged over texts.",
        )
        empty = note_on_empty([is_blank(text) for _, text in self._pairs], "are left out")
        return {"coherence": Score.mean(measure, 100 * cosines, empty)}
