"""What may be asked of ``/v1/completions``: echoes with log-probabilities, lists of prompts, several answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

import nextword as nw
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.text_tokens import start_id
from tests.helpers.running_server import POSITIONS, Running, running, small_model

PROMPT = "The king sat on the throne. The"
TEXTS = ("The king sat on the throne.", "שלום 🙂", "x")


def choices_of(served: Running, prompt: Any, **fields: Any) -> list[dict[str, Any]]:
    answer = served.complete(prompt, **fields)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["choices"]
    return found


def tokens_of(served: Running, tmp_path: Path) -> list[list[dict[str, Any]]]:
    """What ``nextword score`` says of every token of each text."""
    nw.score(served.opened.model, served.opened.tokenizer, TEXTS, tokens=tmp_path / "tokens.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text(encoding="utf-8").splitlines()]
    return [[line for line in lines if line["text"] == f"text {number}"] for number in range(1, len(TEXTS) + 1)]


def test_what_lm_eval_asks_gets_the_numbers_of_score(served: Running, tmp_path: Path) -> None:
    """The request of its ``local-completions``: rows of ids, of which it reads all but the first and the last."""
    tokenizer = served.opened.tokenizer
    rows = [[start_id(tokenizer), *tokenizer(text).input_ids] for text in TEXTS]
    asked = {"model": "small", "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    choices = choices_of(served, rows, **asked)
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    for choice, row, told in zip(choices, rows, tokens_of(served, tmp_path), strict=True):
        found = choice["logprobs"]
        assert len(found["tokens"]) == len(row) + 1
        assert found["token_logprobs"][0] is None
        assert found["top_logprobs"][0] is None
        assert found["token_logprobs"][1:-1] == pytest.approx([token["log_prob"] for token in told], abs=1e-5)
        best = [max(rivals.values()) for rivals in found["top_logprobs"][1:-1]]
        greedy = [value == top for value, top in zip(found["token_logprobs"][1:-1], best, strict=True)]
        assert greedy == [token["rank"] == 1 for token in told]


@pytest.mark.tools
def test_lm_eval_gets_the_numbers_of_score(served: Running, tmp_path: Path) -> None:
    """Its own client, against a server: whole texts, and continuations of a context."""
    instance = pytest.importorskip("lm_eval.api.instance").Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    model, tokenizer = served.opened.model, served.opened.tokenizer
    tokenizer.save_pretrained(tmp_path)
    asked = LocalCompletionsAPI(
        model="small", base_url=f"{served.address}/v1/completions", tokenizer=str(tmp_path),
        tokenizer_backend="huggingface", batch_size=2, max_length=POSITIONS,
    )  # fmt: skip

    def requests(kind: str, *of: tuple[str, ...]) -> list[Any]:
        return [instance(kind, doc={}, arguments=one, idx=number) for number, one in enumerate(of)]

    def nats(text: str | Example) -> float:
        scored = nw.score(model, tokenizer, [text]).models[0]
        return scored.nll * scored.tokens

    whole = asked.loglikelihood_rolling(requests("loglikelihood_rolling", *((text,) for text in TEXTS)))
    assert whole == pytest.approx([-nats(text) for text in TEXTS], abs=1e-5)
    start = tokenizer.decode([start_id(tokenizer)])
    pairs = [("The king", " sat on the throne."), ("The king sat", " on"), ("שלום", " 🙂")]
    found = asked.loglikelihood(requests("loglikelihood", *((start + context, text) for context, text in pairs)))
    assert [value for value, _ in found] == pytest.approx(
        [-nats(Example(text, prompt=context)) for context, text in pairs], abs=1e-5
    )


def test_an_echo_is_the_prompt_and_the_answer(served: Running) -> None:
    [plain] = choices_of(served, PROMPT, max_tokens=6, logprobs=2)
    [echo] = choices_of(served, PROMPT, max_tokens=6, logprobs=2, echo=True)
    assert echo["text"] == PROMPT + plain["text"]
    count = len(served.opened.tokenizer(PROMPT).input_ids)
    assert echo["logprobs"]["tokens"][count:] == plain["logprobs"]["tokens"]
    assert echo["logprobs"]["token_logprobs"][count:] == pytest.approx(plain["logprobs"]["token_logprobs"], abs=1e-5)
    assert echo["logprobs"]["text_offset"][:3] == [0, len("The"), len("The king")]
    assert echo["logprobs"]["text_offset"][count] == len(PROMPT)


def test_the_prompt_alone(served: Running) -> None:
    answer = served.complete(PROMPT, max_tokens=0, echo=True, logprobs=1).json()
    [choice] = answer["choices"]
    assert choice["text"] == PROMPT
    assert answer["usage"]["completion_tokens"] == 0
    assert len(choice["logprobs"]["tokens"]) == len(served.opened.tokenizer(PROMPT).input_ids)
    [full] = choices_of(served, [5] * POSITIONS, max_tokens=0, echo=True, logprobs=1)
    assert len(full["logprobs"]["tokens"]) == POSITIONS
    [single] = choices_of(served, [5], max_tokens=0, echo=True, logprobs=1, sources=True)
    assert single["logprobs"]["token_logprobs"] == [None]
    assert single["nextword"]["tokens"][0]["log_prob"] is None


def test_sources_of_an_echo_are_those_of_its_answer(served: Running) -> None:
    [plain] = choices_of(served, PROMPT, max_tokens=4, sources=True)
    [echo] = choices_of(served, PROMPT, max_tokens=4, sources=True, echo=True)
    ours, theirs = plain["nextword"]["tokens"], echo["nextword"]["tokens"][-4:]
    assert [token["position"] for token in theirs] == [token["position"] for token in ours]
    assert [token["shares"] for token in theirs] == [pytest.approx(token["shares"], abs=1e-3) for token in ours]


def test_several_prompts_and_answers_are_those_of_each_alone(served: Running) -> None:
    alone = [choices_of(served, text, max_tokens=5)[0]["text"] for text in TEXTS]
    answer = served.complete(list(TEXTS), max_tokens=5, n=2, best_of=2).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3, 4, 5]
    assert [choice["text"] for choice in answer["choices"]] == [text for text in alone for _ in range(2)]
    read = sum(len(served.opened.tokenizer(text).input_ids) for text in TEXTS)
    assert answer["usage"] == {"prompt_tokens": read, "completion_tokens": 30, "total_tokens": read + 30}
    drawn = {choice["text"] for choice in choices_of(served, PROMPT, max_tokens=12, n=4, temperature=3)}
    assert len(drawn) == 4
    served.expect_idle()


def test_several_answers_in_a_stream(served: Running) -> None:
    client = openai.OpenAI(base_url=f"{served.address}/v1", api_key="none")
    whole = [choices_of(served, text, max_tokens=8)[0]["text"] for text in TEXTS]
    stream = client.completions.create(
        model="small", prompt=list(TEXTS), max_tokens=8, temperature=0, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    *events, last = list(stream)
    texts = ["", "", ""]
    for event in events:
        assert event.usage is None
        texts[event.choices[0].index] += event.choices[0].text
    assert texts == whole
    assert last.choices == []
    assert last.usage.completion_tokens == 24


def test_one_of_several_prompts_that_does_not_fit_refuses_all(served: Running) -> None:
    answer = served.complete([[5], [5] * POSITIONS])
    assert answer.status_code == 400
    assert "must leave room" in answer.json()["error"]["message"]
    served.expect_idle()


@pytest.mark.slow
def test_a_prompt_that_begins_with_a_special_token_is_shown_without_it() -> None:
    with running(small_model("softmax")) as served:
        start = start_id(served.opened.tokenizer)
        [choice] = choices_of(served, [start, *served.opened.tokenizer("The king").input_ids], max_tokens=0, echo=True)
    assert choice["text"] == "The king"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tokens": 0}, "max_tokens: must be at least 1 (0 given) where echo is not true"),
        ({"n": 2, "best_of": 3}, "best_of: must be n, which is 2 (3 given)"),
        ({"n": 129}, "n: must be at most 128"),
        ({"prompt": ["x"] * 33, "n": 64}, "at most 2,048 answers (2,112 asked for)"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"suffix": "end"}, "suffix: has no effect here"),
    ],
)
def test_what_cannot_be_answered(served: Running, fields: dict[str, Any], message: str) -> None:
    answer = served.complete(**({"prompt": PROMPT} | fields))
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
