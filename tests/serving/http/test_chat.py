"""``/v1/chat/completions``."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import openai
import pytest
import torch

from tests.helpers.running_server import running, small_model

PROMPT = "The king sat on the throne. The"
ASKED = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def talking():
    opened = small_model()
    tokenizer = copy.deepcopy(opened.tokenizer)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    with running(replace(opened, tokenizer=tokenizer)) as found:
        yield found


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
    [("logprobs", True), ("top_logprobs", 2), ("n", 2), ("seed", 1), ("stop", ["x"]), ("logit_bias", {"5": 1})],
)
def test_what_would_have_no_effect_is_refused(talking, field, value):
    answer = talking.client.post("/v1/chat/completions", json=ASKED | {field: value})
    assert answer.status_code == 400
    assert f"{field}: has no effect in a chat" in answer.json()["error"]["message"]


def test_what_asks_for_nothing_is_taken(talking):
    nothing = {"logprobs": False, "n": 1, "presence_penalty": 0, "stop": None, "model": "small"}
    assert talking.client.post("/v1/chat/completions", json=ASKED | nothing).status_code == 200


def test_another_model_is_not_found(talking):
    assert talking.client.post("/v1/chat/completions", json=ASKED | {"model": "other"}).status_code == 404


def test_without_a_template():
    with running(small_model("softmax")) as served:
        answer = served.client.post("/v1/chat/completions", json=ASKED)
    assert answer.status_code == 400
    assert "chat template" in answer.json()["error"]["message"]
