from __future__ import annotations

import pytest
import torch
import transformers

from nextword.experiments.reproduction.planning.experiment_work import model_config, published_models
from nextword.experiments.tasks.task import architecture_of

PARAMETERS = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "bart-large": 406_291_456,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "Llama-2-7b-hf": 6_738_415_616,
    "bert-base-uncased": 109_482_240,
}
"""As the models' pages on the hub count them."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_each_has_as_many_parameters_as_the_published_weights(name):
    config = published_models()[name].config()
    with torch.device("meta"):
        encoder = config.model_type == "bert"
        model = transformers.AutoModel.from_config(config) if encoder else architecture_of(config).new(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]


def test_all_are_tested():
    assert set(PARAMETERS) == set(published_models())


def test_a_folder_comes_before_a_name_and_owners_do_not_matter(tmp_path):
    assert model_config("facebook/bart-large", "start.model").d_model == 1024
    transformers.GPT2Config(n_embd=8, n_head=2).save_pretrained(tmp_path / "gpt2")
    assert model_config(str(tmp_path / "gpt2"), "start.model").n_embd == 8


def test_an_unknown_model_is_named_with_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"start.model: 'ann/nothing'"):
        model_config("ann/nothing", "start.model")
    with pytest.raises(ValueError, match=r"start.model:.*neither a folder"):
        model_config(str(tmp_path), "start.model")
