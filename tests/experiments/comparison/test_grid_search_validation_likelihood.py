from __future__ import annotations

import math

import pytest
import torch
from datasets import Dataset

import nextword as nw
from nextword.experiments.comparison.grid_search import validation_nats
from tests.helpers.families import t5
from tests.helpers.tiny_trainings import tiny_gpt2

ROWS = [[1, 2, 1, 3, 1, 2], [4, 5, 4], [6, 7, 8, 6, 7]]


def rows_of(rows):
    return Dataset.from_dict({"input_ids": rows, "labels": rows})


def test_every_token_counts_alike_and_the_weight_of_a_ranking_loss_does_not(tmp_path):
    model = nw.attach(tiny_gpt2(), "cache", {"objective": "histalign", "alpha": 5.0}).eval()
    model.save_pretrained(tmp_path)
    nats = []
    for row in ROWS:
        ids = torch.tensor([row])
        with torch.no_grad():
            log_probs = model.distribution(ids).log_probs()
        nats += [-float(log_probs[place, token]) for place, token in enumerate(row[1:])]
    assert len(nats) == 11
    for batch_size in (1, 2, 8):
        likely = nw.load(tmp_path, objective="mle")
        assert validation_nats(likely, rows_of(ROWS), batch_size) == pytest.approx(sum(nats) / 11, rel=1e-5)


def test_targets_of_an_encoder_decoder_model_count_from_the_first(tmp_path):
    model = nw.attach(t5(), "softmax").eval()
    model.save_pretrained(tmp_path)
    sources, targets = [[5, 6, 7, 1], [8, 1]], [[9, 1], [10, 11, 12, 1]]
    rows = Dataset.from_dict({"input_ids": sources, "labels": targets})
    with torch.no_grad():
        sums = [
            float(model(input_ids=torch.tensor([source]), labels=torch.tensor([target])).loss) * len(target)
            for source, target in zip(sources, targets, strict=True)
        ]
    assert validation_nats(nw.load(tmp_path, objective="mle"), rows, 2) == pytest.approx(sum(sums) / 6, rel=1e-5)


def test_a_broken_model_has_no_number_and_no_rows_are_refused(tmp_path):
    model = nw.attach(tiny_gpt2(), "softmax")
    model.save_pretrained(tmp_path / "whole")
    with pytest.raises(ValueError, match=r"search:.*validation"):
        validation_nats(nw.load(tmp_path / "whole", objective="mle"), rows_of([[1]]), 2)
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(1e38)
    model.save_pretrained(tmp_path / "broken")
    assert math.isnan(validation_nats(nw.load(tmp_path / "broken", objective="mle"), rows_of(ROWS), 2))
