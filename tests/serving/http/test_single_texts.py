"""Requests that ask for drafts get the same answers in fewer passes, and those with a seed the same again."""

from __future__ import annotations

import json
from typing import Any

import pytest

import nextword as nw
from nextword.inference.scoring.text_tokens import start_id
from tests.helpers.counted import counts_file
from tests.helpers.running_server import POSITIONS, Running, running, slowed, small_model

PROMPT = "abcabcabcabc"


@pytest.fixture(scope="module")
def served() -> Any:
    with running(small_model({"head": "cache", "temperature": 0.1, "weight": None})) as found:
        yield found


def streamed(served: Running, **fields: Any) -> list[dict[str, Any]]:
    content = {"prompt": PROMPT, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}, **fields}
    with served.client.stream("POST", "/v1/completions", json=content) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.parametrize("by", ["head", "prompt"])
def test_answer_is_that_without_drafts_and_usage_counts_them(served: Running, by: str) -> None:
    plain = served.complete(PROMPT, max_tokens=40).json()
    drafted = served.complete(PROMPT, max_tokens=40, draft=by).json()
    assert drafted["choices"] == plain["choices"]
    details = drafted["usage"].pop("completion_tokens_details")
    assert drafted["usage"] == plain["usage"]
    assert details["accepted_prediction_tokens"] > 0


@pytest.mark.slow
def test_stream_has_the_parts_of_the_answer(served: Running) -> None:
    whole = served.complete(PROMPT, max_tokens=40, logprobs=1).json()["choices"][0]
    found = streamed(served, max_tokens=40, logprobs=1, draft="head")
    choices = [event["choices"][0] for event in found[:-1]]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    log_probs = [one for choice in choices if choice["logprobs"] for one in choice["logprobs"]["token_logprobs"]]
    assert log_probs == pytest.approx(whole["logprobs"]["token_logprobs"], abs=1e-4)
    assert found[-1]["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] > 0


def test_drawn_answers_differ(served: Running) -> None:
    texts = {served.complete(PROMPT, max_tokens=20, temperature=3.0, draft="prompt").text for _ in range(3)}
    assert len(texts) == 3


def test_stop_ends_the_answer_before_it(served: Running) -> None:
    text = served.complete(PROMPT, max_tokens=40).json()["choices"][0]["text"]
    stop = text[5:8]
    [choice] = served.complete(PROMPT, max_tokens=40, stop=stop, draft="head").json()["choices"]
    assert choice["text"] == text[: text.index(stop)]
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"draft": "guess"}, 400, "head"),
        ({"prompt": [5, 100_000], "draft": "head"}, 400, "prompt"),
        ({"prompt": [5] * POSITIONS, "draft": "head"}, 400, "must leave room for an answer"),
    ],
)
def test_refused_with_a_reason(served: Running, fields: dict[str, Any], status: int, reason: str) -> None:
    answer = served.client.post("/v1/completions", json={"prompt": PROMPT, **fields})
    assert answer.status_code == status
    assert reason in answer.json()["error"]["message"]


@pytest.mark.slow
def test_head_without_places_drafts_by_the_prompt_alone() -> None:
    with running(small_model("softmax")) as served:
        refused = served.complete(PROMPT, max_tokens=5, draft="head")
        assert refused.status_code == 400
        assert "needs a head that copies" in refused.json()["error"]["message"]
        assert served.complete(PROMPT, max_tokens=5, draft="prompt").status_code == 200


@pytest.mark.slow
def test_client_that_hangs_up_does_not_keep_others_waiting() -> None:
    """Eighty words take four seconds at least; the request behind it has one second in all."""
    with running(slowed(small_model("softmax"), 0.05)) as served:
        content = {"prompt": "a", "max_tokens": 80, "stream": True, "draft": "prompt", "temperature": 0}
        with served.client.stream("POST", "/v1/completions", json=content) as response:
            next(response.iter_lines())
        answer = served.client.post("/v1/completions", json={**content, "max_tokens": 1, "stream": False}, timeout=2)
        assert answer.status_code == 200


def test_a_seed_draws_the_texts_of_generate() -> None:
    """Of each prompt those of its own, whatever is beside it, with drafts too."""
    opened, prompts = small_model(), ["The king", "abcabc", "The king"]
    read = [[start_id(opened.tokenizer), *opened.tokenizer(prompt).input_ids] for prompt in prompts]
    ways = {"sample:2.0": {"temperature": 2}, "top-p:0.9": {"temperature": 1, "top_p": 0.9}}
    with running(opened) as served:
        for decoding, fields in ways.items():
            how = {"decodings": [decoding], "seeds": [7], "samples": 2, "max_new_tokens": 9}
            made = [text["token_ids"] for text in nw.generate(opened.model, opened.tokenizer, prompts, **how)]
            assert len(set(map(tuple, made))) == 6
            for draft in (None, "prompt"):
                asked = {"max_tokens": 9, "n": 2, "seed": 7, "sources": True, "draft": draft, **fields}
                choices = served.complete(read, **asked).json()["choices"]
                assert [[token["id"] for token in one["nextword"]["tokens"]] for one in choices] == made


def test_a_seed_changes_nothing_where_nothing_is_drawn(served: Running) -> None:
    plain, seeded = (served.complete(PROMPT, max_tokens=9, seed=seed).json()["choices"] for seed in (None, 7))
    assert seeded == plain


@pytest.mark.slow
@pytest.mark.parametrize("draft", [None, "prompt"])
def test_the_models_own_settings_cut_nothing_off_that_was_not_asked_for(draft: str | None) -> None:
    """transformers fills what is left out with the model's settings, top-k 50 where there are none."""
    opened = small_model("softmax")
    opened.model.generation_config.top_k = 1
    with running(opened) as served:
        drawn = {
            served.complete(PROMPT, max_tokens=6, temperature=3, draft=draft, seed=seed).json()["choices"][0]["text"]
            for seed in range(4)
        }
        assert len(drawn) > 1


def test_heads_that_draw_by_themselves_have_no_seed() -> None:
    with running(small_model({"head": "f2", "counts": counts_file(), "prior": None})) as served:
        answer = served.complete(PROMPT, max_tokens=3, temperature=1, seed=3)
    assert answer.status_code == 400
    assert "seed: must be left out with head 'f2" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_no_seed_where_texts_are_remembered() -> None:
    opened = small_model({"head": "knn", "k": 4, "weight": 0.9, "temperature": 0.01})
    with running(opened, remember=20) as served:
        for fields in ({"seed": 3, "temperature": 1}, {"draft": "prompt"}):
            answer = served.complete(PROMPT, max_tokens=3, **fields)
            assert answer.status_code == 400
            assert f"{next(iter(fields))}: must be left out where the server remembers" in answer.text
