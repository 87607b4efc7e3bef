"""TRIME's external memory in training: the rows of a batch are alike, and see one another."""

from __future__ import annotations

from typing import Any

from nextword.experiments.training.segments.alike_rows import AlikeRows
from nextword.experiments.training.segments.remembering_trainer import RememberingTrainer
from nextword.model.head_cache.long_memory import LongMemory


class AlikeTrainer(RememberingTrainer):
    """The rows of a batch are neighbours by BM25, and a head that looks back sees those before it in the batch.

    So what is to be copied is there, as it will be in a datastore (TRIME, Zhong et al. 2022, with batches by BM25).
    Gradients go back through all rows of a batch; nothing is remembered of another. Validation losses are those of each
    row by itself.
    """

    setting = "alike"

    def _get_train_sampler(self, train_dataset: Any = None) -> AlikeRows:
        rows: Any = self.train_dataset if train_dataset is None else train_dataset
        return AlikeRows(rows, self.args.train_batch_size, self.args.seed)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Trainer's own, with a memory of this batch."""
        further = {"memory": LongMemory()} if model.training else {}
        return super().compute_loss(model, {**inputs, **further}, *args, **kwargs)
