"""What completions and chats take and refuse alike."""

from __future__ import annotations

from typing import Any

import pytest

from nextword.serving.http.requests import RequestPart, read_request
from tests.helpers.running_server import Running

PROMPT = "The king"
PATHS = {
    "/v1/completions": {"prompt": PROMPT, "max_tokens": 2},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 2},
}
OF_BOTH = pytest.mark.parametrize("path", PATHS)


@OF_BOTH
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tokens": 0}, "max_tokens: must be at least 1 (0 given)"),
        ({"max_tokens": -3}, "max_tokens: must be at least"),
        ({"temperature": -1}, "temperature: must be at least 0 (-1 given)"),
        ({"temperature": 101}, "temperature: must be at most 100"),
        ({"top_p": 0}, "top_p: must be more than 0 (0 given)"),
        ({"top_p": 1.5}, "top_p: must be at most 1 (1.5 given)"),
        ({"top_k": 0}, "top_k: must be at least 1 (0 given)"),
        ({"n": 0}, "n: must be at least 1 (0 given)"),
        ({"stop": ""}, "stop.0: must be of length 1 or more ('' given)"),
        ({"stop": ["x", ""]}, "stop.1: must be of length 1 or more ('' given)"),
        ({"stop": ["x"] * 65}, "stop: must be of length 64 or less"),
        ({"stream_options": {"include_usage": True}}, "stream_options: must be sent with stream=true"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools: has no effect here"),
        ({"tool_choice": "required"}, "tool_choice: has no effect here"),
        ({"response_format": {"type": "json_object"}}, "response_format: has no effect here"),
        ({"logit_bias": {"5": 1}}, "logit_bias: has no effect here"),
        ({"presence_penalty": 1.0}, "presence_penalty: has no effect here"),
        ({"tempreature": 1}, "tempreature: unknown key. Did you mean 'temperature'?"),
    ],
)
def test_refused(talking: Running, path: str, fields: dict[str, Any], message: str) -> None:
    answer = talking.client.post(path, json=PATHS[path] | fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


@OF_BOTH
def test_what_asks_for_nothing_changes_nothing(talking: Running, path: str) -> None:
    nothing = {
        "tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "logit_bias": {}, "stop": [],
        "presence_penalty": 0, "frequency_penalty": 0.0, "user": "me", "metadata": {"of": "mine"}, "n": 1,
    }  # fmt: skip
    nulls = dict.fromkeys(
        ("model", "temperature", "top_p", "stop", "stream", "stream_options", "seed", "n", "logprobs", "tools", "draft")
    )
    plain, *others = (
        talking.client.post(path, json=PATHS[path] | fields).json()["choices"] for fields in ({}, nothing, nulls)
    )
    assert others == [plain, plain]


@pytest.mark.slow
@OF_BOTH
def test_nulls_leave_the_defaults(talking: Running, path: str) -> None:
    content = {name: value for name, value in PATHS[path].items() if name != "max_tokens"}
    answers = [talking.client.post(path, json=content | fields).json() for fields in ({}, {"max_tokens": None})]
    assert answers[0]["usage"] == answers[1]["usage"]


@OF_BOTH
def test_all_of_more_than_four_stops_count(talking: Running, path: str) -> None:
    content = PATHS[path] | {"max_tokens": 40, "temperature": 0}
    text = text_of(talking.client.post(path, json=content).json()["choices"][0])
    last = text[10]
    [choice] = talking.client.post(path, json=content | {"stop": ["no 1", "no 2", "no 3", "no 4", last]}).json()[
        "choices"
    ]
    assert text_of(choice) == text[: text.index(last)]


def text_of(choice: dict[str, Any]) -> str:
    text: str = choice["message"]["content"] if "message" in choice else choice["text"]
    return text


@pytest.mark.few(1)
@OF_BOTH
def test_the_window_cuts_an_answer_off(talking: Running, path: str) -> None:
    answer = talking.client.post(path, json=PATHS[path] | {"max_tokens": 500, "temperature": 0}).json()
    assert answer["usage"]["total_tokens"] == 96
    assert answer["choices"][0]["finish_reason"] == "length"


@OF_BOTH
@pytest.mark.parametrize("temperature", [1e-300, 1e-40, 1e-6])
def test_the_coldest_temperatures_are_greedy(talking: Running, path: str, temperature: float) -> None:
    """Scores divided by them are infinite, which ended the batches of all others."""
    greedy, cold = (
        talking.client.post(path, json=PATHS[path] | {"temperature": value}).json()["choices"]
        for value in (0, temperature)
    )
    assert cold == greedy


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", rb'{"prompt": "bad \ud83d end"}'),
        ("/v1/completions", rb'{"prompt": "x", "stop": "\ude00"}'),
        ("/v1/completions", rb'{"prompt": "x", "\ud83d": 1}'),
        ("/v1/completions", b'{"prompt": "\xff"}'),
        ("/v1/completions", b'{"prompt": "x", "temperature": NaN}'),
        ("/v1/completions", b"no"),
        ("/v1/completions", b"[1]"),
        ("/v1/chat/completions", rb'{"messages": [{"role": "user", "content": "bad \ud83d end"}]}'),
        ("/v1/chat/completions", b"[1]"),
        ("/inspect", rb'{"prompt": "\ud83d", "ids": [5]}'),
        ("/inspect", b'{"prompt": "x", "ids": [99999999999999999999]}'),
    ],
)
def test_what_is_no_request(talking: Running, path: str, body: bytes) -> None:
    answer = talking.client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_half_a_character_is_found() -> None:
    with pytest.raises(ValueError, match=r"^stop.1:.*\(half of one, \\ud83d, given"):
        read_request(RequestPart, rb'{"stop": ["a", "bad \ud83d end"]}')
    with pytest.raises(ValueError, match="line 1 column"):
        read_request(RequestPart, rb'{"text": "bad')
    assert read_request(RequestPart, b'{"left": null}') == RequestPart()
