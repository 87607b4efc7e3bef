"""A task whose rows have an auxiliary text: the number that is counted on from, and how far."""

from __future__ import annotations

from typing import Any

import torch
from transformers import BertConfig, BertModel, set_seed

from nextword.experiments.tasks import Measures
from nextword.results.records import Evaluation, MetricValue
from tests.helpers.counting_task import NUMBERS, Counting, CountingRows, CountingStart

WIDTH = 12
ROWS = 10


def save_encoder(folder):
    """A tiny BERT, in a folder."""
    set_seed(0)
    config = BertConfig(
        vocab_size=NUMBERS, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return str(folder)


class AdvisedRows:
    """Map-style data that shows other rows in each epoch."""

    column_names = ("input_ids", "labels", "aux_input_ids", "source_ids", "source_positions")

    def __init__(self, seen):
        self.epoch, self.seen = 0, seen

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return ROWS

    def __getitem__(self, place):
        self.seen.append((self.epoch, place))
        ids = [1 + (place + self.epoch + more) % (NUMBERS - 1) for more in range(3 + place % 4)]
        aux = [2, 3 + place % 3, *([4] if place % 2 else [])]
        return {
            "input_ids": ids, "labels": ids,
            "aux_input_ids": aux, "source_ids": aux[1:], "source_positions": list(range(1, len(aux))),
        }  # fmt: skip


class AdvisedData(CountingRows):
    def counts(self) -> dict[str, int]:
        return {}  # its rows are counted by tests, which reading them here would add to

    def encoder(self) -> str | None:
        return Advised.folder

    def training(self, tokenizer: Any) -> Any:
        return AdvisedRows(Advised.seen)

    def validation(self, tokenizer: Any) -> Any:
        return AdvisedRows([])


class AdvisedNumbers(Measures):
    def evaluate(self, model: Any, tokenizer: Any, progress: Any = None) -> Evaluation:
        ids = torch.tensor([[1, 2, 3, 4]], device=model.device)
        aux = {}
        if model.conditioner is not None:
            aux = {"aux_input_ids": ids[:, :2]}
            if model.next_word_head.reads_source:
                aux |= {"source_ids": ids[:, :2], "source_positions": torch.tensor([[0, 1]], device=model.device)}
        with torch.no_grad():
            loss = float(model(input_ids=ids, labels=ids, **aux).loss)
        return Evaluation(metrics={"nll": MetricValue(value=loss, unit="nats per token", n=3)})


class Advised(Counting):
    """Counts upwards with advice."""

    name = "advised"
    folder = ""
    seen: list[tuple[int, int]] = []  # noqa: RUF012

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.data = AdvisedData(config)
        self.start = CountingStart(self.data)
        self.measures = AdvisedNumbers()
