"""``nextword serve``, asked at a real address."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx
import openai
import pytest
import torch

import nextword as nw
from nextword.inference.inspection.trace_example import pieces_of_ids
from nextword.serving.http.app import build_app
from nextword.serving.http.serve_settings import ServeSettings
from tests.helpers.running_server import POSITIONS, running, small_model

PROMPT = "The king sat on the throne. The"


def events(response):
    """The data of server-sent events."""
    lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@torch.no_grad()
def written_alone(opened, prompt, count):
    """What ``generate`` writes after a prompt, and the log-probabilities of all tokens there."""
    ids = opened.tokenizer(prompt, return_tensors="pt").input_ids
    made = opened.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0
    )
    new = made[0, ids.shape[1] :].tolist()
    return new, opened.model(input_ids=made).logits[0, ids.shape[1] - 1 : -1]


def test_a_completion_is_that_of_generate_with_its_log_probabilities(served):
    answer = served.complete(PROMPT, max_tokens=12, logprobs=3, sources=True).json()
    [choice] = answer["choices"]
    ids, log_probs = written_alone(served.opened, PROMPT, 12)
    assert [token["id"] for token in choice["nextword"]["tokens"]] == ids
    found = choice["logprobs"]
    assert found["token_logprobs"] == pytest.approx(
        log_probs.gather(1, torch.tensor(ids)[:, None])[:, 0].tolist(), abs=1e-5
    )
    assert all(len(rivals) == 3 for rivals in found["top_logprobs"])
    assert [max(rivals.values()) for rivals in found["top_logprobs"]] == pytest.approx(
        log_probs.max(1).values.tolist(), abs=1e-5
    )
    before = served.opened.tokenizer(PROMPT).input_ids
    assert choice["text"] == "".join(pieces_of_ids(served.opened.tokenizer, ids, before))
    assert choice["finish_reason"] == "length"
    count = len(before)
    assert answer["usage"] == {"prompt_tokens": count, "completion_tokens": 12, "total_tokens": count + 12}


def test_sources_and_places_are_those_of_its_page(served):
    [choice] = served.complete(PROMPT, max_tokens=10, sources=True).json()["choices"]
    tokens = choice["nextword"]["tokens"]
    asked = {"prompt": PROMPT, "ids": [token["id"] for token in tokens]}
    made = served.client.post("/inspect", json=asked).json()
    page = served.client.get(made["page"]).text
    traced = json.loads(page.split('<script type="application/json" id="traces">')[1].split("</script>")[0])[0]
    assert traced["first"] == made["first"] == tokens[0]["position"]
    for place, token in enumerate(tokens):
        shares = {name: share[place] for name, share in traced["tokens"]["shares"].items()}
        assert token["shares"] == pytest.approx(shares, abs=1e-3)
        assert token["rank"] == traced["tokens"]["rank"][place]
        strongest = traced["tokens"]["positions"]["cache"]["at"][place]
        assert [at for at, _ in token["positions"]["cache"]][: len(strongest)] == strongest[
            : len(token["positions"]["cache"])
        ]
    assert any(token["positions"]["cache"] for token in tokens)


def test_a_page_of_nothing_is_refused_and_an_old_one_is_gone(served):
    for asked in ({"prompt": "", "ids": [5]}, {"prompt": "x", "ids": []}, {"prompt": "x", "ids": [-1]}):
        assert served.client.post("/inspect", json=asked).status_code == 400
    assert served.client.get("/inspected/none").status_code == 404


def test_a_stream_is_the_answer_in_parts(served):
    whole = served.complete(PROMPT, max_tokens=15, sources=True, logprobs=1).json()["choices"][0]
    asked = {"stream": True, "stream_options": {"include_usage": True}, "sources": True, "logprobs": 1}
    content = {"prompt": PROMPT, "max_tokens": 15, "temperature": 0, **asked}
    with served.client.stream("POST", "/v1/completions", json=content) as response:
        found = events(response)
    choices = [event["choices"][0] for event in found[:-1]]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    parts = [token for choice in choices for token in (choice.get("nextword") or {"tokens": []})["tokens"]]
    assert [token["id"] for token in parts] == [token["id"] for token in whole["nextword"]["tokens"]]
    offsets = [one for choice in choices if choice["logprobs"] for one in choice["logprobs"]["text_offset"]]
    assert offsets == whole["logprobs"]["text_offset"]
    assert choices[-1]["finish_reason"] == "length"
    assert found[-1]["usage"]["completion_tokens"] == 15


def test_the_client_of_openai_gets_tokens(served):
    client = openai.OpenAI(base_url=f"{served.address}/v1", api_key="none")
    answer = client.completions.create(
        model="small", prompt=PROMPT, max_tokens=5, temperature=0, logprobs=2, extra_body={"sources": True}
    )
    assert len(answer.choices[0].logprobs.tokens) == 5
    assert len(answer.choices[0].model_extra["nextword"]["tokens"]) == 5
    assert [model.id for model in client.models.list()] == ["small"]


def test_every_request_has_its_own_sampling(served):
    """Greedy and hot requests side by side; transformers takes the sampling of all from the first."""
    greedy = served.complete(PROMPT, max_tokens=20).json()["choices"][0]["text"]
    with ThreadPoolExecutor(8) as pool:
        hot = pool.map(lambda _: served.complete(PROMPT, max_tokens=20, temperature=3.0), range(4))
        cold = pool.map(lambda _: served.complete(PROMPT, max_tokens=20), range(4))
        narrow = pool.map(lambda _: served.complete(PROMPT, max_tokens=20, temperature=3.0, top_k=1), range(4))
        drawn = {answer.json()["choices"][0]["text"] for answer in hot}
        assert len(drawn) == 4
        assert greedy not in drawn
        for answers in (cold, narrow):
            assert {answer.json()["choices"][0]["text"] for answer in answers} == {greedy}


def test_a_stop_ends_the_answer_before_it(served):
    text = served.complete(PROMPT, max_tokens=30).json()["choices"][0]["text"]
    stop = next(letter for letter in text if letter != "\N{REPLACEMENT CHARACTER}")
    [choice] = served.complete(PROMPT, max_tokens=30, stop=[stop]).json()["choices"]
    assert choice["text"] == text[: text.index(stop)]
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ({"prompt": ""}, 400, "prompt: must have text or token ids ('' given); write something to continue"),
        ({"prompt": []}, 400, "prompt:"),
        ({}, 400, "prompt: missing"),
        ({"prompt": [99999]}, 400, "prompt"),
        ({"prompt": [-1]}, 400, "prompt"),
        ({"prompt": [5] * POSITIONS}, 400, "prompt: must leave room for an answer within 96 tokens"),
        ({"prompt": "x", "n": 0}, 400, "n: must be at least 1"),
        ({"prompt": "x", "colour": 1}, 400, "colour: unknown key"),
        ({"prompt": "x", "temperature": -1}, 400, "temperature"),
        ({"prompt": "x", "model": "other"}, 404, "model: must be 'small'"),
        ({"prompt": "x", "temperature": 1, "stream": True, "max_tokens": 0}, 400, "max_tokens"),
    ],
)
def test_a_request_that_cannot_be_answered(served, content, status, message):
    answer = served.client.post("/v1/completions", json=content)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]
    assert served.complete("x", max_tokens=1).status_code == 200


def test_an_answer_ends_where_the_model_does(served):
    ids = [5] * (POSITIONS - 4)
    answer = served.complete(ids, max_tokens=50).json()
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.slow
def test_a_server_that_is_stopped_ends_its_answers(tmp_path):
    opened = small_model()
    opened.model.save_pretrained(tmp_path / "model")
    opened.tokenizer.save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "nextword", "serve", str(tmp_path / "model"), "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split(" at ")[1].split()[0]
            wait_for(address)
            content = {"prompt": "x", "max_tokens": 80, "temperature": 0, "stream": True}
            with httpx.stream("POST", f"{address}/v1/completions", json=content, timeout=30) as response:
                lines = response.iter_lines()
                next(lines)
                process.terminate()
                rest = [line for line in lines if line]
            assert rest[-1] == "data: [DONE]"
            assert process.wait(timeout=20) in (0, -signal.SIGTERM)
        finally:
            process.kill()


def wait_for(address):
    """Until a server answers."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return httpx.get(f"{address}/health").raise_for_status()
        except httpx.HTTPError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_the_batches_do_not_see_the_questions_about_their_tokens(served):
    """Facts are asked of a twin while tokens are written, and the model's weights are shared, not copied."""
    answers = []

    def ask():
        answers.append(served.complete(PROMPT, max_tokens=40, sources=True).json()["choices"][0]["text"])

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 1
    assert all(one == other for one, other in pairwise(answers))


def test_encoder_decoders_are_refused():
    from transformers import T5Config, T5ForConditionalGeneration

    from nextword.inference.scoring.opened_model import OpenedModel
    from tests.helpers.text_tokenizers import byte_level

    config = T5Config(vocab_size=400, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0)
    model = nw.attach(T5ForConditionalGeneration(config), "softmax").eval()
    with pytest.raises(ValueError, match="must be used with a decoder-only model"):
        build_app(OpenedModel.of(model, byte_level()), ServeSettings())


def test_what_was_said_is_retrieved_from_then_on():
    opened = small_model({"head": "knn", "k": 4, "weight": 0.9, "temperature": 0.01})
    with running(opened, remember=20) as served:

        def said(prompt: str, **fields: Any) -> tuple[str, list[float]]:
            [choice] = served.complete(prompt, max_tokens=8, sources=True, **fields).json()["choices"]
            return choice["text"], [token["shares"].get("knn", 0.0) for token in choice["nextword"]["tokens"]]

        first, before = said(PROMPT)
        assert before == [0.0] * 8
        again, shares = said(PROMPT)
        assert again == first
        assert min(shares) > 0.5
        assert len(opened.model.next_word_head.recent) == 20, "the oldest are forgotten"
    with pytest.raises(ValueError, match="must have the head knn"):
        build_app(small_model("cache"), ServeSettings(remember=10))
