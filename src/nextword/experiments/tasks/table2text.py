"""From a table to a sentence that follows from it: LogicNLG.

The data is LogicNLG's own files. A sentence says which columns it is about, and a model reads these columns as text
with marks, and with ranks, sums and averages that were computed beforehand, as in PLOG:

    <table> <caption> olympic games </caption> <sum_cell> 1589 <col_header> seats </col_header> </sum_cell> ...
    <cell> 589 <col_header> seats </col_header> <row_idx> 0 </row_idx> <max_rank> 2 </max_rank> ... </cell> ... </table>

Source: Wan, Zhang and Bansal, "HistAlign: Improving Context Dependency in Language Generation by Aligning with History"
(EMNLP 2023), section 6.4 and appendix A.4, which follows PLOG (Liu et al., EMNLP 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nextword.evaluation.metrics import Table
from nextword.experiments.tasks.parts.added_tokens import with_tokens
from nextword.experiments.tasks.parts.architecture import ENCODER_DECODER, expect_positions
from nextword.experiments.tasks.parts.bpe import named_or_trained
from nextword.experiments.tasks.parts.likelihood_values import likelihood_values
from nextword.experiments.tasks.parts.prompted_texts import PromptedTexts
from nextword.experiments.tasks.parts.seq2seq.source_target import PairEncoder
from nextword.experiments.tasks.parts.small_start import SmallStart
from nextword.experiments.tasks.parts.table2text.linearisation import MARKS, Linearisation
from nextword.experiments.tasks.parts.table2text.table_samples import TableSamples
from nextword.experiments.tasks.parts.table2text.table_settings import Table2TextConfig
from nextword.experiments.tasks.parts.table2text.table_text_rows import TableRows
from nextword.experiments.tasks.task import Measures, Task, registry
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.writing_settings import MAY_CHANGE
from nextword.inference.scoring.calibration.chosen_settings import tuned
from nextword.inference.scoring.minibatches import Progress
from nextword.inference.scoring.target_likelihood import TokenPair, likelihood_sum, target_log_probs
from nextword.model.training_modes import measuring
from nextword.results.records import Evaluation
from nextword.runtime.corpora.gap_sentences import MASK
from nextword.runtime.corpora.logicnlg import TableSentence, read_logicnlg
from nextword.runtime.corpora.texts import read_parts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.evaluation.metrics.likelihood import LikelihoodSum

    Encoder = Callable[[PreTrainedTokenizerBase], PairEncoder]


@registry.register("table2text")
class TableToText(Task):
    """Sentences that encoder-decoder models write from tables: likelihood, BLEU. See docs/tasks/table2text.md."""

    name = "table2text"
    version = 1
    Config = Table2TextConfig
    architecture = ENCODER_DECODER
    may_change = MAY_CHANGE
    # for the small start on two CPU cores; a pretrained one has the rates of FineTuning
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 200, "batch_size": 16, "learning_rate": 2e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: TableRows

    def __init__(self, config: Table2TextConfig) -> None:
        self.config = config
        linearised = Linearisation(config.precomputation, config.order)
        self.samples = TableSamples(read_logicnlg(Path(config.data)), config.sizes, config.seed, linearised)
        further = None if config.start.data is None else read_parts(config.start.data, "task.start.data")
        self.data = data = TableRows(self.samples, self._encoder, further)
        self.start = TableStart(data, config, self._encoder)
        self.measures = SentenceLikelihood(self.samples, self._encoder, config)
        texts = config.generation.texts()
        if texts is not None:
            size, longest = config.generation.batch_size, config.max_target_tokens
            self.writes = PromptedTexts(texts, self._prompts, size, config.batch_size, longest=longest)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The tokenizer must end sequences; the model must hold the lengths and begin targets."""
        if all(getattr(model_config, name, None) is None for name in ("decoder_start_token_id", "bos_token_id")):
            raise ValueError(
                "the start model's config.json says neither decoder_start_token_id nor bos_token_id, so nobody knows "
                "what its targets begin with; set decoder_start_token_id (in T5 the padding token)"
            )
        names = ("max_source_tokens", "max_target_tokens")
        expect_positions(model_config, {name: getattr(self.config, name) for name in names})
        self._encoder(tokenizer)

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PairEncoder:
        """What turns pairs into ids."""
        return PairEncoder(tokenizer, self.config.max_source_tokens, self.config.max_target_tokens)

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        """A prompt for each of the first test sentences, with the whole table, which judges read."""
        sentences = self.samples.test[: self.config.generation.sentences]
        pairs = self.samples.pairs(sentences)
        encoded = [pair.tokens for pair in self._encoder(tokenizer)(pairs)]
        return {
            "": [
                Prompt(
                    tokens.context, tokens.target, tokens.target_bytes, number, source=pair.source,
                    references=tuple(self.samples.references(one)), columns={"table": _table(one)},
                )
                for number, (one, pair, tokens) in enumerate(zip(sentences, pairs, encoded, strict=True))
            ]
        }  # fmt: skip


def _table(one: TableSentence) -> dict[str, Any]:
    return Table(
        header=list(one.table.header), rows=[list(row) for row in one.table.rows], title=one.title
    ).model_dump()


class TableStart(SmallStart):
    """A small T5 whose tokenizer has a token for each mark; a pretrained model's tokenizer gets them too."""

    tokens = MARKS

    def __init__(self, data: TableRows, config: Table2TextConfig, encoder: Encoder) -> None:
        super().__init__(
            lambda: with_tokens(
                named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache, MASK), MARKS
            ),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, encoder(tokenizer).pad),
            rows=lambda tokenizer, seed: data.start_rows(tokenizer),
            training=config.start.training(),
        )


class SentenceLikelihood(Measures):
    """Likelihood of the test sentences."""

    def __init__(self, samples: TableSamples, encoder: Encoder, config: Table2TextConfig) -> None:
        self._samples, self._encoder, self._config = samples, encoder, config

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Nats, perplexity and bits per byte of the sentences."""
        with measuring(model):
            total = self._likelihood(model, self._tokens(self._samples.test, tokenizer), progress)
        return Evaluation(metrics=likelihood_values(total, "target token", "targets"))

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation sentences."""
        tokens = self._tokens(self._samples.validation[: self._config.tuning_sentences], tokenizer)
        return tuned(model, lambda: self._likelihood(model, tokens))

    def _tokens(self, sentences: Sequence[TableSentence], tokenizer: PreTrainedTokenizerBase) -> list[TokenPair]:
        return [pair.tokens for pair in self._encoder(tokenizer)(self._samples.pairs(sentences))]

    def _likelihood(self, model: Any, pairs: Sequence[TokenPair], progress: Progress | None = None) -> LikelihoodSum:
        log_probs = target_log_probs(model, pairs, self._config.batch_size, progress=progress)
        return likelihood_sum(pairs, (float((-row).sum()) for row in log_probs))
