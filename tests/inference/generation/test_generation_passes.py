from __future__ import annotations

from pathlib import Path

import pytest
from transformers.generation.configuration_utils import GenerationMode

from nextword.inference.generation.generation_passes import GenerationSettings, generation_passes, pass_path
from tests.helpers.counted import counts_file
from tests.helpers.writing_models import opened_model


def passes(opened=None, **settings):
    return generation_passes(opened or opened_model(), GenerationSettings.model_validate(settings))


def test_what_draws_nothing_is_one_pass_whatever_the_seeds_and_samples():
    found = passes(decodings=["greedy", "top-k:3", "beam:2"], seeds=[0, 1], samples=3)
    assert [(one.title, one.seed, one.samples) for one in found] == [
        ("greedy", None, 1), ("top-k 3", 0, 3), ("top-k 3", 1, 3), ("beam 2", None, 1)
    ]  # fmt: skip
    assert [one.is_rowwise for one in found] == [True, True, True, False]
    assert [one.file_name() for one in found] == [
        "greedy.jsonl", "top-k-3-seed-0.jsonl", "top-k-3-seed-1.jsonl", "beam-2.jsonl"
    ]  # fmt: skip


def test_without_a_decoding_the_model_s_own_settings_say_how():
    opened = opened_model()
    assert [(one.title, one.mode) for one in passes(opened)] == [("model's default", GenerationMode.GREEDY_SEARCH)]
    opened.model.generation_config.do_sample = True
    opened.model.generation_config.max_new_tokens = 7
    (found,) = passes(opened)
    assert (found.mode, found.seed, found.new_tokens) == (GenerationMode.SAMPLE, 0, 7)
    assert passes(opened, max_new_tokens=3)[0].new_tokens == 3
    assert passes(opened, decodings=["greedy"])[0].mode == GenerationMode.GREEDY_SEARCH


def test_a_default_length_of_an_encoder_decoder_counts_the_start_token():
    opened = opened_model("t5")
    assert passes(opened)[0].new_tokens == 100
    opened.model.generation_config.max_length = 20
    assert passes(opened)[0].new_tokens == 19


def test_set_arguments_count_for_every_decoding():
    found = passes(decodings=["greedy", "sample"], arguments={"repetition_penalty": 1.5, "num_beams": 2})
    assert [one.mode for one in found] == [GenerationMode.BEAM_SEARCH, GenerationMode.BEAM_SAMPLE]
    assert {one.arguments["repetition_penalty"] for one in found} == {1.5}


def test_arguments_of_a_head_are_known_where_the_model_has_it():
    f2 = opened_model(head={"head": "f2", "counts": counts_file()})
    assert passes(f2, arguments={"decoupled": False})[0].arguments["decoupled"] is False
    with pytest.raises(ValueError, match=r"arguments\['decoupled'\]: generate knows no such"):
        passes(arguments={"decoupled": False})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repetition_penalti": 1}, r"arguments\['repetition_penalti'\]: .* Did you mean 'repetition_penalty'"),
        ({"output_scores": True}, r"arguments\['output_scores'\]: generate knows no such argument"),
        ({"num_beam_groups": 2, "num_beams": 4}, "group beam search is no longer part of transformers"),
        ({"penalty_alpha": 0.6, "top_k": 4}, "contrastive search is no longer part of transformers"),
    ],
)
def test_arguments_that_nobody_knows_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        passes(arguments=arguments)


def test_least_tokens_are_at_most_the_most():
    with pytest.raises(ValueError, match=r"min_new_tokens:.*max_new_tokens"):
        passes(max_new_tokens=3, min_new_tokens=4)


def test_several_passes_need_a_folder():
    (one, two) = passes(decodings=["greedy", "beam:2"])
    assert pass_path(Path("out"), two, 2) == Path("out/beam-2.jsonl")
    assert pass_path(Path("a.jsonl"), one, 1) == Path("a.jsonl")
    with pytest.raises(ValueError, match=r"out=a\.jsonl"):
        pass_path(Path("a.jsonl"), one, 2)
