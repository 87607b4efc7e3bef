"""Sequence to sequence: likelihood of targets given sources, and copy recall and precision.

The data is your own pairs, with one JSON object per line:

    {"source": "The river Aare rises in the Alps and flows through Bern.", "target": "The Aare flows through Bern."}

or plain text. In each paragraph of plain text one sentence is replaced by a mask and becomes the target, as in the
pre-training of PEGASUS (Zhang et al., 2020): source "A dog barked. <mask> The cat ran.", target "The dog saw the cat."
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nextword.experiments.tasks.pair_measures import PairLikelihood, copying_metrics
from nextword.experiments.tasks.pair_task import PairSamples, PairTask, PairTaskConfig, StartPairs
from nextword.experiments.tasks.prompted_texts import as_decoding_says
from nextword.experiments.tasks.small_start import T5StartConfig
from nextword.experiments.tasks.task import registry
from nextword.inference.generation.generator import Generator
from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.likelihood import TokenPair
from nextword.inference.scoring.opened_model import Progress, batches, progress_within
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import Evaluation
from nextword.runtime.corpora.pairs import gap_texts, leaks, read_pairs
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel

LIKELIHOOD_SHARE = 0.25
"""Approximate share of the evaluation's time that is spent on the likelihood. The rest is spent on generation."""


class CopiedTextsConfig(Settings):
    """Settings of the generation that measures copying."""

    pairs: int = Field(default=300, ge=1)
    """Number of test pairs for which targets are generated, from the first pair."""
    beams: int = Field(default=1, ge=1, le=1000)
    """Number of beams; 1: greedy search."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Maximum tokens of an output; none: ``task.max_target_tokens``."""


class Seq2SeqStartConfig(T5StartConfig):
    """The small initial T5, used if no pretrained model is given."""

    data: str | None = None
    """File or folder like task.data, on whose training split the small model is trained; none: the training pairs."""


class Seq2SeqConfig(PairTaskConfig):
    """Settings of the task; ``data`` is required."""

    generation: CopiedTextsConfig = CopiedTextsConfig()
    """Settings of the generation that measures copying."""
    start: Seq2SeqStartConfig = Seq2SeqStartConfig()
    """The small initial model, used if no pretrained model is given."""


@registry.register("seq2seq")
class SequenceToSequence(PairTask):
    """Generate targets from sources (encoder-decoder models): likelihood and copying. See docs/tasks/seq2seq.md."""

    name = "seq2seq"
    version = 1
    Config = Seq2SeqConfig
    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config, gap_texts(config.gaps), lambda pairs: _start_pairs(config.start.data, pairs))
        self.measures = LikelihoodAndCopying(self.pairs, self._encoder, config)


def _start_pairs(data: str | None, pairs: PairSamples) -> StartPairs:
    if data is None:
        return StartPairs()
    first = read_pairs(Path(data), pairs.reading, "task.start.data")
    facts: dict[str, int | float | str] = {
        "start_source": first.source,
        "start_sha256": first.sha256,
        "start_pairs": len(first.train),
        **leaks(first.train, pairs.available.test, "start_leak", pairs.reading),
    }
    return StartPairs(first.train, facts)


class LikelihoodAndCopying(PairLikelihood):
    """Measures the likelihood of the test targets and copying in generated outputs, and records example predictions."""

    _config: Seq2SeqConfig

    def evaluate(
        self, model: NextWordModel, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None
    ) -> Evaluation:
        """Measure the likelihood of all test pairs, and copying on the first ``generation.pairs`` pairs."""
        config, encoder = self._config, self._encoder(tokenizer)
        measured = super().evaluate(model, tokenizer, progress_within(progress, 0, LIKELIHOOD_SHARE))
        encoded = encoder(self._pairs.test)[: config.generation.pairs]
        outputs = self._outputs(model, [pair.tokens for pair in encoded], progress)
        texts = tokenizer.batch_decode(outputs, skip_special_tokens=True)
        sources = (encoder.visible_text(pair.source) for pair in encoded)
        references = (pair.target.text for pair in encoded)
        copied = list(zip(sources, references, texts, strict=True))
        copying = copying_metrics(copied, self._frequent_words())
        return measured.model_copy(update={"metrics": measured.metrics | copying})

    def _outputs(self, model: NextWordModel, pairs: Sequence[TokenPair], progress: Progress | None) -> list[list[int]]:
        generation = self._config.generation
        length = generation.max_new_tokens or self._config.max_target_tokens
        parts = batches(pairs, self._config.batch_size, progress_within(progress, LIKELIHOOD_SHARE, 1))
        with inference_mode_of(model), as_decoding_says(model, Decoding(beams=generation.beams), length, ends=True):
            return [text for part in parts for text in Generator(model).write(part)]
