"""``/v1/chat/completions``."""

from __future__ import annotations

import json

import openai
import pytest
import torch

from tests.helpers.running_server import running, small_model

PROMPT = "The king sat on the throne. The"
ASKED = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def expected(talking):
    """What greedy ``generate`` writes after the prompt."""
    ids = talking.opened.tokenizer(PROMPT, return_tensors="pt").input_ids
    how = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    made = talking.opened.model.generate(ids, attention_mask=torch.ones_like(ids), **how)
    return talking.opened.tokenizer.decode(made[0, ids.shape[1] :])


def test_an_answer(talking, expected):
    answer = talking.client.post("/v1/chat/completions", json=ASKED)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == expected


def test_a_stream(talking, expected):
    with talking.client.stream("POST", "/v1/chat/completions", json=ASKED | {"stream": True}) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    pieces = [choice["delta"].get("content") or "" for event in events for choice in event["choices"]]
    assert len([piece for piece in pieces if piece]) > 1
    # transformers leaves out a character that is not whole at the end
    assert "".join(pieces).rstrip("\N{REPLACEMENT CHARACTER}") == expected.rstrip("\N{REPLACEMENT CHARACTER}")
    assert [choice["finish_reason"] for choice in events[-1]["choices"]] in ([], ["length"])


def test_the_client_of_openai(talking, expected):
    client = openai.OpenAI(base_url=f"{talking.address}/v1", api_key="none")
    answer = client.chat.completions.create(model="small", **ASKED)
    assert answer.choices[0].message.content == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [("n", 2), ("seed", 1), ("presence_penalty", 1.0), ("logit_bias", {"5": 1})],
)
def test_what_would_have_no_effect_is_refused(talking, field, value):
    answer = talking.client.post("/v1/chat/completions", json=ASKED | {field: value})
    assert answer.status_code == 400
    assert f"{field}: has no effect in a chat" in answer.json()["error"]["message"]


def test_what_asks_for_nothing_is_taken(talking):
    nothing = {"logprobs": False, "sources": False, "n": 1, "presence_penalty": 0, "stop": None, "model": "small"}
    assert talking.client.post("/v1/chat/completions", json=ASKED | nothing).status_code == 200


def completed(talking, **fields):
    """The completion of the text that the chat template makes."""
    [choice] = talking.complete(PROMPT, max_tokens=6, **fields).json()["choices"]
    return choice


def test_log_probabilities_are_those_of_a_completion(talking):
    whole = completed(talking, logprobs=2)
    [choice] = talking.client.post("/v1/chat/completions", json=ASKED | {"logprobs": True, "top_logprobs": 2}).json()[
        "choices"
    ]
    assert choice["message"] == {"role": "assistant", "content": whole["text"]}
    assert choice["finish_reason"] == "length"
    found, expected = choice["logprobs"]["content"], whole["logprobs"]
    assert [token["token"] for token in found] == expected["tokens"]
    assert [token["logprob"] for token in found] == expected["token_logprobs"]
    assert [{one["token"]: one["logprob"] for one in token["top_logprobs"]} for token in found] == expected[
        "top_logprobs"
    ]
    assert bytes(found[0]["bytes"]).decode() == found[0]["token"]


def test_log_probabilities_in_a_stream(talking):
    client = openai.OpenAI(base_url=f"{talking.address}/v1", api_key="none")
    whole = completed(talking, logprobs=1)
    events = list(client.chat.completions.create(model="small", stream=True, logprobs=True, top_logprobs=1, **ASKED))
    choices = [choice for event in events for choice in event.choices]
    assert len(choices) > 1
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices) == whole["text"]
    tokens = [token for choice in choices for token in (choice.logprobs.content if choice.logprobs else [])]
    assert [token.token for token in tokens] == whole["logprobs"]["tokens"]
    assert [token.logprob for token in tokens] == pytest.approx(whole["logprobs"]["token_logprobs"], abs=1e-5)
    assert choices[-1].finish_reason == "length"
    assert events[-1].usage.completion_tokens == 6


def test_sources_and_stops(talking, expected):
    whole = completed(talking, sources=True)
    client = openai.OpenAI(base_url=f"{talking.address}/v1", api_key="none")
    [choice] = client.chat.completions.create(model="small", extra_body={"sources": True}, **ASKED).choices
    assert choice.logprobs is None
    assert choice.model_extra["nextword"] == whole["nextword"]
    stop = next(letter for letter in expected if letter != "\N{REPLACEMENT CHARACTER}")
    [choice] = client.chat.completions.create(model="small", stop=stop, **ASKED).choices
    assert (choice.message.content, choice.finish_reason) == (expected[: expected.index(stop)], "stop")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"top_logprobs": 2}, "top_logprobs: must be sent with logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "logprobs"),
        ({"logprobs": True, "messages": None}, "messages: must be a list"),
        ({"logprobs": True, "tools": [{"type": "function"}]}, "tools"),
        ({"logprobs": True, "messages": [{"role": "user", "content": PROMPT * 60}]}, "leave room for an answer"),
    ],
)
def test_what_cannot_be_answered_with_log_probabilities(talking, fields, message):
    answer = talking.client.post("/v1/chat/completions", json=ASKED | fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_another_model_is_not_found(talking):
    assert talking.client.post("/v1/chat/completions", json=ASKED | {"model": "other"}).status_code == 404


def test_without_a_template():
    with running(small_model("softmax")) as served:
        answer = served.client.post("/v1/chat/completions", json=ASKED)
    assert answer.status_code == 400
    assert "chat template" in answer.json()["error"]["message"]
