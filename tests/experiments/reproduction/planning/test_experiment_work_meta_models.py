from __future__ import annotations

import pytest
import torch

from nextword.experiments.comparison.method import Method
from nextword.experiments.reproduction.planning.experiment_work import method_size, model_config, zipf_counts
from nextword.experiments.training.settings import TrainingSettings
from tests.oracles.poster import millions

ALL = [TrainingSettings(steps=1)]
GPT2, BERT = model_config("gpt2", "start.model"), model_config("bert-base-uncased", "task.encoder")


@pytest.mark.parametrize("head", ["softmax+mi", "mos:3", "pg", "ps", "softmax+cpr:20,100+mi"])
def test_heads_on_gpt2_have_the_poster_s_sizes(head):
    size = method_size(Method(head=head), GPT2, ALL)
    assert size.parameters / 1e6 == pytest.approx(millions(head))
    assert size.trained == size.parameters == size.passed


def test_what_a_conditioner_freezes_is_not_trained_and_its_encoder_reads_other_tokens():
    size = method_size(Method(head="softmax", conditioner="dau:published"), GPT2, ALL, BERT)
    assert size.trained < size.parameters / 5
    assert size.parameters - size.passed == 109_482_240
    downstream = method_size(Method(head="softmax", conditioner="bergpt"), GPT2, ALL, BERT)
    assert size.trained < downstream.trained < downstream.parameters


def test_classes_by_frequency_need_counts_that_are_not_made_yet(tmp_path):
    counts = zipf_counts(50257, tmp_path / "counts.npz")
    assert method_size(Method(head="f2"), GPT2, ALL, counts=counts).parameters > 124_439_808


def test_a_low_rank_training_of_a_large_model_takes_no_memory():
    llama = model_config("meta-llama/Llama-2-7b-hf", "start.model")
    size = method_size(Method(head="cache"), llama, [TrainingSettings(steps=1, lora={"rank": 8})])
    assert size.parameters == 6_738_415_616
    assert 0 < size.trained < size.parameters / 20


def test_the_second_stage_and_the_head_of_the_test_are_built_too():
    two = Method(head="softmax", then={"objective": "histalign"})
    with pytest.raises(ValueError, match="histalign"):
        method_size(two, GPT2, ALL * 2)
    late = Method(head="softmax+ce", trained_as="softmax")
    with pytest.raises(ValueError, match=r"\+e"):
        method_size(late, GPT2, ALL)
    assert method_size(Method(head="softmax", trained=False), GPT2, []).trained == 0


def test_the_default_device_is_as_before():
    method_size(Method(head="softmax"), GPT2, ALL)
    assert torch.zeros(1).device.type == "cpu"
