"""A task that takes a second: predict the next of 20 numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from datasets import Dataset
from pydantic import BaseModel, ConfigDict
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, PreTrainedTokenizerFast

from nextword.experiments.tasks import Data, Measures, Pretraining, Start, Task
from nextword.experiments.tasks.prompted_texts import PromptedTexts
from nextword.experiments.tasks.writing import MAY_CHANGE, ContinuationConfig
from nextword.inference.generation.prompts import Prompt
from nextword.results.records import Evaluation, MetricValue
from nextword.runtime.progress import Watcher

NUMBERS = 20


class CountingConfig(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    rows: int = 16


class CountingRows(Data):
    def __init__(self, config: CountingConfig) -> None:
        self.config = config

    def describe(self) -> dict[str, int | float | str]:
        return {"rows": self.config.rows, "split": "none"}

    def counts(self) -> dict[str, int]:
        return {"numbers": sum(3 + row % 4 for row in range(self.config.rows))}

    def training(self, tokenizer: Any) -> Dataset:
        rows = [[1 + (row + place) % (NUMBERS - 1) for place in range(3 + row % 4)] for row in range(self.config.rows)]
        return Dataset.from_dict({"input_ids": rows, "labels": rows})

    def validation(self, tokenizer: Any) -> Dataset:
        return self.training(tokenizer)


class CountingStart(Start):
    def __init__(self, data: Data) -> None:
        self.data = data

    def tokenizer(self) -> PreTrainedTokenizerFast:
        words = {"<pad>": 0, **{str(number): number for number in range(1, NUMBERS)}}
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<pad>")

    def pretraining(self, tokenizer: Any, seed: int) -> Pretraining:
        config = GPT2Config(
            vocab_size=NUMBERS, n_positions=16, n_embd=16, n_layer=1, n_head=2,
            bos_token_id=0, eos_token_id=0, pad_token_id=0,
        )  # fmt: skip
        settings = {"steps": 2, "batch_size": 4, "learning_rate": 1e-2}
        return Pretraining(config, self.data.training(tokenizer), settings)

    def probe(self, model: Any, tokenizer: Any) -> dict[str, MetricValue]:
        return {"known": MetricValue(value=0.5, unit="fraction", n=2)}


class FourNumbers(Measures):
    def evaluate(self, model: Any, tokenizer: Any, progress: Any = None) -> Evaluation:
        ids = tokenizer("1 2 3 4", return_tensors="pt").input_ids.to(model.device)
        with torch.no_grad():
            loss = float(model(input_ids=ids, labels=ids).loss)
        if progress:
            progress(1.0)
        return Evaluation(metrics={"nll": MetricValue(value=loss, unit="nats per token", n=3)})

    def tune(self, model: Any, tokenizer: Any) -> dict[str, float | None]:
        model.configure_head(temperature=0.5)
        return {"temperature": 0.5}


class Counting(Task):
    """Counts upwards."""

    name = "counting"
    version = 1
    Config = CountingConfig
    training_defaults: ClassVar[dict[str, Any]] = {"steps": 3, "batch_size": 4, "learning_rate": 1e-2}

    def __init__(self, config: CountingConfig) -> None:
        self.config = config
        self.data = CountingRows(config)
        self.start = CountingStart(self.data)
        self.measures = FourNumbers()


class WritingConfig(CountingConfig):
    generation: ContinuationConfig


class Writing(Counting):
    """Counts upwards, and writes how it would go on."""

    name = "writing"
    Config = WritingConfig
    may_change = MAY_CHANGE

    def __init__(self, config: WritingConfig) -> None:
        super().__init__(config)
        texts = config.generation.texts()
        if texts is not None:
            self.writes = PromptedTexts(texts, self._prompts, config.generation.batch_size, score_batch=4)

    def _prompts(self, tokenizer: Any) -> dict[str, list[Prompt]]:
        rows = range(self.config.generation.prompts)
        return {"": [Prompt([*range(row + 1, row + 4)], [*range(row + 4, row + 8)], 8, row) for row in rows]}


class Heard(Watcher):
    """Writes down what a comparison says; may end the process in the middle of a stage."""

    def __init__(self, killed_in=None):
        self.events = []
        self.fractions = []
        self.killed_in = killed_in

    def planned(self, runs, finished):
        self.events.append(("planned", runs, finished))

    def began(self, name, stage):
        self.events.append((name, stage))

    def advanced(self, name, fraction):
        self.fractions.append(fraction)
        if self.events[-1] == self.killed_in and fraction > 0.5:
            raise KeyboardInterrupt

    def ended(self, name, stage, seconds):
        assert seconds >= 0

    def finished(self, record):
        self.events.append(("finished", record.method, record.seed))

    def failed(self, run):
        self.events.append(("failed", run.method, run.seed))

    def of(self, stage):
        """Names of the runs that had this stage."""
        return [name for name, *rest in self.events if rest == [stage]]

    @property
    def trained(self):
        return self.of("training")
