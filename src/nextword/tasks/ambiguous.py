"""The Ambiguous Template task: can a model put both of two words seen before on top, and not their analogues?

Source: Chang & McCallum (2022), as used by HistAlign (Wan et al., 2023), sections 5.1, 5.3 and 6.1, tables 1 and 9.
Differs from the published data: the pairs of a relation are dealt out once, so that no test pair is ever trained on
(the released split repeats about 31 % of its test examples in training); unordered quadruples, so that no prompt occurs
twice; our own wording; an embedded lexicon, so that it runs without any download.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nextword.config import Seed, Settings
from nextword.functional.padding import IGNORED_LABEL
from nextword.records import Evaluation, MetricValue
from nextword.scoring.ask import Progress, encode_answer, encode_prompt, measuring, start_id
from nextword.tasks.parts.ambiguous import invented_stories as corpus
from nextword.tasks.parts.ambiguous import two_answers as copying
from nextword.tasks.parts.ambiguous.lexicon import PairSplit, embedded, from_analogies, split_pairs
from nextword.tasks.parts.ambiguous.templates import TEMPLATES, Prompt, prompts, sample
from nextword.tasks.parts.cache_tuning import tune_cache
from nextword.tasks.parts.word_tokenizer import word_tokenizer
from nextword.tasks.task import Start, Task, registry

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

PARTS = ("train", "validation", "test")


class StartConfig(Settings):
    """The tiny GPT-2 that stands in for a pretrained model, and its training on generated text."""

    n_layer: int = Field(default=2, ge=1, le=1000)
    """Transformer layers."""
    n_embd: int = Field(default=64, ge=4, le=100_000)
    """Width of the states: the rank of a softmax is at most this plus one."""
    n_head: int = Field(default=4, ge=1)
    """Attention heads; must divide n_embd."""
    documents: int = Field(default=20_000, ge=100, le=10_000_000)
    """Generated documents."""
    block: int = Field(default=64, ge=16)
    """Tokens of one training row."""
    steps: int = Field(default=2000, ge=1)
    """Optimiser steps of one round."""
    knows: float = Field(default=0.95, ge=0, le=1)
    """Share of each relation's statements that it must complete; rounds of training go on until it does."""
    batch_size: int = Field(default=16, ge=1)
    """Rows of one step."""
    learning_rate: float = Field(default=3e-3, gt=0)
    """Highest learning rate."""


class AmbiguousConfig(Settings):
    """What can be set; the defaults need no file."""

    analogies: str | None = None
    """Path of the Google analogy file questions-words.txt; None: the embedded lexicon."""
    train_share: float = Field(default=0.5, gt=0, lt=1)
    """Share of the pairs of each relation that training may use."""
    validation_share: float = Field(default=0.15, gt=0, lt=1)
    """Share that validation uses; the rest is the test set."""
    split_seed: Seed = 0
    """Seed of the split and of the sampling below."""
    train_prompts: int = Field(default=2000, ge=1)
    """Training prompts at most; each gives two examples, one for each word."""
    validation_prompts: int = Field(default=200, ge=2)
    """Validation prompts at most."""
    test_prompts: int = Field(default=500, ge=2)
    """Test prompts at most."""
    rank_rows: int = Field(default=4750, ge=2)
    """Rows of the log-probability matrix at most (the paper's number); more than the hidden size."""
    batch_size: int = Field(default=64, ge=1)
    """Prompts at a time in measurements."""
    start: StartConfig = StartConfig()
    """The start model where no pretrained one is given."""


@registry.register("ambiguous")
class Ambiguous(Task):
    """Two words of the prompt may come next, their neighbours in the embedding may not. See docs/tasks/ambiguous.md.

    >>> task = Ambiguous(AmbiguousConfig())
    >>> task.describe()["leak_pairs"], task.describe()["leak_prompts"]
    (0, 0)
    """

    name = "ambiguous"
    version = 1
    Config = AmbiguousConfig

    def __init__(self, config: AmbiguousConfig) -> None:
        self.config = config
        self.lexicon = from_analogies(Path(config.analogies)) if config.analogies else embedded()
        shares = (config.train_share, config.validation_share)
        if sum(shares) >= 1:
            raise ValueError(
                f"task.train_share + task.validation_share is {sum(shares):g}: it must stay below 1 to leave a test set"
            )
        self.splits: dict[str, PairSplit] = {
            relation.name: split_pairs(relation, shares, config.split_seed) for relation in self.lexicon.relations
        }

    @cached_property
    def _available(self) -> dict[str, list[Prompt]]:
        return {
            part: [
                prompt
                for relation in self.lexicon.relations
                for prompt in prompts(getattr(self.splits[relation.name], part), relation.group)
            ]
            for part in PARTS
        }

    @cached_property
    def prompts(self) -> dict[str, list[Prompt]]:
        """The sampled prompts of each part."""
        caps = (self.config.train_prompts, self.config.validation_prompts, self.config.test_prompts)
        return {
            part: sample(self._available[part], cap, self.config.split_seed)
            for part, cap in zip(PARTS, caps, strict=True)
        }

    def describe(self) -> dict[str, int | float | str]:
        """Sizes and leak counts; ``leak_pairs`` and ``leak_prompts`` compare everything available, not a sample."""
        trained_pairs = set(chain.from_iterable((*s.train, *s.validation) for s in self.splits.values()))
        tested_pairs = set(chain.from_iterable(s.test for s in self.splits.values()))
        trained_texts = {prompt.text for part in PARTS[:2] for prompt in self._available[part]}
        tested_texts = {prompt.text for prompt in self._available["test"]}
        sizes: dict[str, int | float | str] = {}
        for relation in self.lexicon.relations:
            for part in PARTS:
                sizes[f"{relation.name}_{part}_pairs"] = len(getattr(self.splits[relation.name], part))
        for part in PARTS:
            sizes[f"{part}_prompts"] = len(self.prompts[part])
            sizes[f"{part}_prompts_available"] = len(self._available[part])
        return {
            "source": self.lexicon.source,
            "sha256": self.lexicon.sha256,
            "pairs": sum(len(relation.pairs) for relation in self.lexicon.relations),
            "split": "pairs of a relation dealt out once, those that share a word together; quadruples inside a part",
            **sizes,
            "leak_pairs": len(trained_pairs & tested_pairs),
            "leak_prompts": len(trained_texts & tested_texts),
            "words_in_training_and_test": len(
                set(chain.from_iterable(trained_pairs)) & set(chain.from_iterable(tested_pairs))
            ),
        }

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Word-level: every word of the lexicon, the templates and the sentence frames is one token."""
        templates = chain.from_iterable(TEMPLATES.values())
        texts = [" ".join(self.lexicon.words()), *(template.format("", "") for template in templates)]
        return word_tokenizer([*texts, *corpus.frame_words()])

    def start(self, tokenizer: PreTrainedTokenizerBase, seed: int) -> Start:
        """A tiny GPT-2 and generated text that states the relations."""
        from datasets import Dataset
        from transformers import GPT2Config

        config = self.config.start
        end = start_id(tokenizer)
        documents = list(corpus.documents(self.lexicon, config.documents, seed))
        encoded = tokenizer(documents, add_special_tokens=False)["input_ids"]
        stream = [token for document in encoded for token in (end, *document)]
        blocks = [stream[i : i + config.block] for i in range(0, len(stream) - config.block + 1, config.block)]
        architecture = GPT2Config(
            vocab_size=len(tokenizer), n_positions=max(128, config.block), n_embd=config.n_embd,
            n_layer=config.n_layer, n_head=config.n_head, bos_token_id=end, eos_token_id=end,
            pad_token_id=tokenizer.pad_token_id, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
        settings = {
            "steps": config.steps, "batch_size": config.batch_size, "learning_rate": config.learning_rate,
        }  # fmt: skip
        return Start(architecture, Dataset.from_dict({"input_ids": blocks, "labels": blocks}), settings)

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Two rows for each prompt, one for each word; only the word's own tokens are labels."""
        return _examples(self.prompts["train"], tokenizer)

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """As ``training``."""
        return _examples(self.prompts["validation"], tokenizer)

    def training_defaults(self) -> dict[str, Any]:
        """The same for every method; docs/tasks/ambiguous.md says how they were chosen. Pretrained models want 1e-5."""
        return {"steps": 600, "batch_size": 32, "learning_rate": 6e-3, "freeze_output_embeddings": True}

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of both words of the validation prompts."""
        encoded = copying.encode(self.prompts["validation"], tokenizer)
        with measuring(model):
            return tune_cache(model, lambda: copying.mean_nll(model, encoded, self.config.batch_size))

    def check_start(self, config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The tokenizer must tell the words of enough test prompts apart."""
        copying.encode(self.prompts["test"], tokenizer)

    def probe_start(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, MetricValue]:
        """How well the model knows the relations: share of statements whose last word it guesses first."""
        with measuring(model):
            return copying.completion_accuracy(model, corpus.probes(self.lexicon), tokenizer, self.config.batch_size)

    def knows_enough(self, probe: dict[str, MetricValue]) -> bool:
        """Every relation at least to the share that ``task.start.knows`` asks for."""
        return all(known.value >= self.config.start.knows for known in probe.values())

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Acc@k (joint, and cache-only where the head has it), rank and spectrum, two example prompts."""
        modes = [mode for mode in ("joint", "cache_only") if mode in model.next_word_head.modes]
        encoded = copying.encode(self.prompts["test"], tokenizer)
        stages = len(modes) + 1

        def stage(number: int) -> Progress:
            done = [0.0]

            def report(share: float) -> None:
                done[0] = min(1.0, done[0] + share)
                if progress is not None:
                    progress((number + done[0]) / stages)

            return report

        metrics: dict[str, MetricValue] = {}
        with measuring(model):
            for number, mode in enumerate(modes):
                metrics |= copying.accuracy(model, encoded, mode, self.config.batch_size, stage(number))
            ranks, spectrum = copying.rank_and_spectrum(
                model, encoded, self.config.rank_rows, self.config.batch_size, stage(len(modes))
            )
            examples = copying.example_predictions(model, encoded, tokenizer, modes)
        if encoded.left_out:
            unit = "test prompts left out: two of the four words begin with the same token"
            metrics["left_out"] = MetricValue(value=float(encoded.left_out), unit=unit, n=len(self.prompts["test"]))
        return Evaluation(metrics=metrics | ranks, spectrum=spectrum, examples=examples)


def _examples(found: list[Prompt], tokenizer: PreTrainedTokenizerBase) -> Dataset:
    from datasets import Dataset

    rows: dict[str, list[list[int]]] = {"input_ids": [], "labels": []}
    for prompt in found:
        ids = encode_prompt(tokenizer, prompt.text)
        for word in prompt.words:
            answer = encode_answer(tokenizer, prompt.text, word)
            rows["input_ids"].append(ids + answer)
            rows["labels"].append([IGNORED_LABEL] * len(ids) + answer)
    return Dataset.from_dict(rows)
