"""Answers as streams are the answers as wholes, up to a stop, and with drafts too."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from nextword.serving.http.app import build_app
from nextword.serving.http.serve_settings import ServeSettings
from tests.helpers.running_server import Running, running, small_model

PROMPT = "abcabcabcabc"


@pytest.fixture(scope="module")
def copying() -> Any:
    """Goes on with what it read, so that its text has words in it."""
    with running(small_model({"head": "cache", "temperature": 0.1, "weight": None})) as found:
        yield found


def streamed(served: Running, **fields: Any) -> dict[str, Any]:
    """The events of a stream put together, as a client does it."""
    content = {"prompt": PROMPT, "temperature": 0, "stream": True, **fields}
    with served.client.stream("POST", "/v1/completions", json=content) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    choices = [json.loads(line)["choices"][0] for line in lines]
    told = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    return {
        "text": "".join(choice["text"] for choice in choices),
        "tokens": [token for one in told for token in one["tokens"]],
        "offsets": [at for one in told for at in one["text_offset"]],
        "finished": [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
    }


@pytest.mark.slow
@pytest.mark.parametrize("draft", [None, "head"])
def test_no_part_of_a_stop_is_sent(copying: Running, draft: str | None) -> None:
    """Stops of one to five characters that begin at each place of the answer, inside of tokens and across them."""
    text = copying.complete(PROMPT, max_tokens=24).json()["choices"][0]["text"]
    for begin in range(10):
        stop = text[begin : begin + 1 + begin % 5]
        asked = {"max_tokens": 24, "stop": [stop, "not in it"], "logprobs": 0, "draft": draft}
        [whole] = copying.complete(PROMPT, **asked).json()["choices"]
        parts = streamed(copying, **asked)
        assert whole["text"] == parts["text"] == text[: text.index(stop)]
        assert parts["tokens"] == whole["logprobs"]["tokens"]
        assert parts["offsets"] == whole["logprobs"]["text_offset"]
        assert parts["finished"] == [whole["finish_reason"]] == ["stop"]


@pytest.mark.slow
def test_what_only_began_like_a_stop_is_sent(copying: Running) -> None:
    text = copying.complete(PROMPT, max_tokens=24).json()["choices"][0]["text"]
    for begin in range(0, 20, 3):
        parts = streamed(copying, max_tokens=24, stop=text[begin : begin + 4] + "\N{SNOWMAN}")
        assert parts["text"] == text
        assert parts["finished"] == ["length"]


@pytest.mark.slow
def test_stops_of_the_model_end_answers() -> None:
    opened = small_model({"head": "cache", "temperature": 0.1, "weight": None})
    with running(opened) as served:
        text = served.complete(PROMPT, max_tokens=24).json()["choices"][0]["text"]
        opened.model.generation_config.stop_strings = text[5:8]
    with running(opened) as served:
        for draft in (None, "prompt"):
            [choice] = served.complete(PROMPT, max_tokens=24, draft=draft).json()["choices"]
            assert (choice["text"], choice["finish_reason"]) == (text[: text.index(text[5:8])], "stop")


def test_an_echo_in_a_stream(copying: Running) -> None:
    [whole] = copying.complete(PROMPT, max_tokens=5, echo=True, logprobs=1).json()["choices"]
    parts = streamed(copying, max_tokens=5, echo=True, logprobs=1)
    assert parts["text"] == whole["text"]
    assert parts["tokens"] == whole["logprobs"]["tokens"]
    assert parts["offsets"] == whole["logprobs"]["text_offset"]
    assert streamed(copying, max_tokens=0, echo=True)["text"] == PROMPT


def test_tokens_are_counted_in_a_stream_where_that_is_asked_for(copying: Running) -> None:
    content = {"prompt": PROMPT, "temperature": 0, "stream": True, "max_tokens": 3}
    answer = copying.client.post("/v1/completions", json=content)
    assert '"usage"' not in answer.text
    assert '"choices":[]' not in answer.text


def test_a_model_is_found_by_its_name(copying: Running) -> None:
    assert copying.client.get("/v1/models/small").json()["id"] == "small"
    assert copying.client.get("/v1/models/other").status_code == 404


def test_a_server_whose_batches_have_ended_says_so() -> None:
    with running(small_model("softmax")) as served:

        def broken(*_: Any) -> None:
            raise RuntimeError("out of memory")

        served.opened.model.backbone.register_forward_pre_hook(broken)
        first = served.complete(PROMPT, max_tokens=2)
        assert first.status_code == 500
        second = served.complete(PROMPT, max_tokens=2)
        assert (second.status_code, second.json()["error"]["message"]) == (
            500, "batching has stopped (out of memory); start the server again",
        )  # fmt: skip
        assert served.client.get("/health").status_code == 503


def test_a_model_that_diverged_answers_with_an_error() -> None:
    opened = small_model({"head": "cache", "temperature": 0.1, "weight": None})
    said = "the weights backbone.transformer.wte.weight are not finite numbers"
    with running(opened) as broken:
        with torch.no_grad():
            opened.model.get_input_embeddings().weight.fill_(float("nan"))
        for fields in ({"draft": "head"}, {"seed": 1, "temperature": 1}, {}, {}):
            answer = broken.complete(PROMPT, max_tokens=4, **fields)
            assert answer.status_code == 500
            assert said in answer.json()["error"]["message"]


def test_a_model_that_diverged_is_refused_at_the_start() -> None:
    opened = small_model()
    with torch.no_grad():
        opened.model.get_input_embeddings().weight.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"the weights backbone\.transformer\.wte\.weight are not finite numbers"):
        build_app(opened, ServeSettings(device="cpu"))
