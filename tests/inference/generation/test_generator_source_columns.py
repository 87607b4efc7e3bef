from __future__ import annotations

import json

import pytest
import torch

from nextword.inference.generation.generation_passes import GenerationSettings
from nextword.inference.generation.generation_run import GenerationRun, write_samples_files
from nextword.inference.generation.prompts import TextPrompt
from tests.helpers.writing_models import LOUD_CACHE, opened_model, tokenizer

TEXTS = ["The king and the queen met the mayor", "a", "the little dragon, the little dragon"]


def written(opened, prompts, path, **settings):
    asked = {"decodings": ["top-k:5"], "max_new_tokens": 9, "sources": True, "positions": 40, **settings}
    run = GenerationRun.planned(opened, prompts, GenerationSettings.model_validate(asked))
    write_samples_files(run, path)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@torch.no_grad()
def test_shares_and_places_are_those_of_a_text_alone(tmp_path):
    opened = opened_model(head=LOUD_CACHE)
    prompts = [TextPrompt(text, id=place) for place, text in enumerate(TEXTS)]
    pointed = 0
    for line in written(opened, prompts, tmp_path / "s.jsonl"):
        before, ids = line["prompt_token_ids"], line["token_ids"]
        whole = torch.tensor([[tokenizer().bos_token_id, *before, *ids]])
        rows = slice(len(before), len(before) + len(ids))
        distribution = opened.model.distribution(whole)[rows]
        asked = torch.tensor(ids)[:, None]
        total = distribution.log_prob(asked).exp()[:, 0]
        for name, share in distribution.sources(asked).items():
            assert line["shares"][name] == pytest.approx((share[:, 0] / total).tolist(), abs=1e-5)
        expected = distribution.token_positions(asked[:, 0])["cache"] / total[:, None]
        for token, strongest, row in zip(ids, line["positions"]["cache"], expected, strict=True):
            shares = [share for _, share in strongest]
            assert shares == sorted(shares, reverse=True)
            # the start token stands before the place 0
            assert shares == pytest.approx([float(row[at + 1]) for at, _ in strongest], abs=1e-5)
            assert {([tokenizer().bos_token_id, *before, *ids])[at + 1] for at, _ in strongest} <= {token}
            pointed += len(strongest)
    assert pointed > 5


def test_places_of_a_source_are_indices_into_it(tmp_path):
    prompts = [TextPrompt(source=text, id=place) for place, text in enumerate(TEXTS)]
    pointed = 0
    for line in written(opened_model("t5", "pg:published"), prompts, tmp_path / "s.jsonl"):
        for token, strongest in zip(line["token_ids"], line["positions"]["pointer"], strict=True):
            assert {line["prompt_token_ids"][at] for at, _ in strongest} <= {token}
            pointed += len(strongest)
    assert pointed


def test_shares_add_up_to_one_and_the_strongest_places_are_named(tmp_path):
    opened = opened_model(head="softmax+cpr:5")
    found = written(
        opened, [TextPrompt(text, id=place) for place, text in enumerate(TEXTS)], tmp_path / "s.jsonl", positions=2
    )
    for line in found:
        sums = [sum(shares) for shares in zip(*line["shares"].values(), strict=True)]
        assert sums == pytest.approx([1.0] * len(line["token_ids"]), abs=1e-5)
        assert all(len(positions) <= 2 for component in line["positions"].values() for positions in component)


def test_a_head_without_places_has_none_and_an_empty_text_no_entries(tmp_path):
    opened = opened_model()
    opened.model.generation_config.eos_token_id = list(range(300))
    (line,) = written(opened, [TextPrompt("a")], tmp_path / "s.jsonl")
    assert line["shares"] == {"softmax": []}
    assert "positions" not in line
    assert line["text"] == ""


def test_a_conditioned_model_says_where_in_the_auxiliary_text(tmp_path):
    opened = opened_model(head="softmax+ce", conditioner="dau")
    prompts = [TextPrompt("The king", auxiliary=text, id=place) for place, text in enumerate(TEXTS)]
    found = written(opened, prompts, tmp_path / "s.jsonl")
    assert [line["auxiliary"] for line in found] == TEXTS
    pointed = 0
    for line in found:
        words = tokenizer()(line["auxiliary"])["input_ids"]
        for name, component in line["positions"].items():
            for token, strongest in zip(line["token_ids"], component, strict=True):
                if name == "encoder":
                    assert {words[at] for at, _ in strongest} <= {token}
                    pointed += len(strongest)
    assert set(found[0]["positions"]) - {"context"} == {"encoder"}


@torch.no_grad()
def test_places_of_a_decoder_beside_an_encoder_are_those_of_its_own_text(tmp_path):
    opened = opened_model("t5", "softmax+c")
    prompts = [TextPrompt(text, id=place) for place, text in enumerate(TEXTS)]
    pointed = 0
    for line in written(opened, prompts, tmp_path / "s.jsonl", decodings=["sample"], max_new_tokens=30):
        for token, strongest in zip(line["token_ids"], line["positions"]["context"], strict=True):
            stands = [tokenizer().pad_token_id, *line["token_ids"]]  # the start token at -1
            assert {stands[place + 1] for place, _ in strongest} <= {token}
            pointed += len(strongest)
    assert pointed
