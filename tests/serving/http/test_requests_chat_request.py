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
    assert "".join(pieces) == expected
    assert [choice["finish_reason"] for choice in events[-1]["choices"]] == ["length"]


def test_the_client_of_openai(talking, expected):
    client = openai.OpenAI(base_url=f"{talking.address}/v1", api_key="none")
    answer = client.chat.completions.create(model="small", **ASKED)
    assert answer.choices[0].message.content == expected


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
    assert b"".join(bytes(token["bytes"]) for token in found).decode(errors="replace") == whole["text"]


def test_log_probabilities_in_a_stream(talking):
    client = openai.OpenAI(base_url=f"{talking.address}/v1", api_key="none")
    whole = completed(talking, logprobs=1)
    asked = {"stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 1}
    events = list(client.chat.completions.create(model="small", **asked, **ASKED))
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
        ({"messages": None}, "messages: missing"),
        ({"messages": "hi"}, "messages: must be a list ('hi' given)"),
        ({"messages": []}, "messages: must be of length 1 or more"),
        ({"messages": ["hi"]}, "messages.0: must be a table with keys ('hi' given)"),
        ({"messages": [{"content": "hi"}]}, "messages.0.role: missing"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages: must have a token"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, "image_url"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "chat template rejects them (no robots)"),
        ({"max_completion_tokens": 0}, "max_completion_tokens: must be at least 1"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs: must be variables of the template"),
        ({"messages": [{"role": "user", "content": PROMPT * 60}]}, "leave room for an answer"),
    ],
)
def test_what_cannot_be_answered(talking, fields, message):
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


def test_parts_are_joined_and_variables_handed_to_the_template(talking):
    parts = [{"type": "text", "text": "The king"}, {"type": "text", "text": "sat on the throne. The"}]
    asked = {**ASKED, "messages": [{"role": "user", "content": parts, "refusal": None}]}
    plain, other, tailed = (
        talking.client.post("/v1/chat/completions", json=content).json()
        for content in (ASKED, asked, asked | {"chat_template_kwargs": {"tail": " king"}})
    )
    assert other["choices"] == plain["choices"]
    assert tailed["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"] + 1


def test_the_newer_name_of_the_longest_answer_counts(talking):
    answer = talking.client.post("/v1/chat/completions", json=ASKED | {"max_completion_tokens": 2}).json()
    assert answer["usage"]["completion_tokens"] == 2


def test_several_answers(talking, expected):
    answer = talking.client.post("/v1/chat/completions", json=ASKED | {"n": 3}).json()
    assert [(one["index"], one["message"]["content"]) for one in answer["choices"]] == [
        (index, expected) for index in range(3)
    ]
