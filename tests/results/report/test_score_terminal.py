from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

import nextword as nw
from nextword.results.records import ScoreResults
from nextword.results.report import score_tables
from tests.helpers.word_models import TEXT, WORDS, word_model, word_tokenizer

TEXTS = [f"{TEXT} {word}" for word in [*WORDS, *WORDS]]


def shown(results: ScoreResults) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    for table in score_tables(results):
        console.print(table)
    return console.export_text()


@pytest.fixture(scope="module")
def two() -> ScoreResults:
    return nw.score({"one": word_model(1), "two": word_model(2)}, word_tokenizer(), TEXTS)


def test_several_models_stand_side_by_side(two: ScoreResults) -> None:
    text = shown(two)
    value = two["two"].values["perplexity"]
    assert f"{value.value:.2f} ({value.low:.2f}–{value.high:.2f})" in text
    assert f"{two.differences[0].difference:+.3f}" in text
    copied = next(one for one in two.differences if one.group == "not copied")
    row = next(line for line in text.splitlines() if line.startswith(" not copied"))
    assert f"{copied.difference:+.3f}" in row
    assert "one, two: windows of at most 16 tokens, 8 new ones in each" in text


def test_many_models_have_a_row_each() -> None:
    names = ["one", "two", "three", "four"]
    several = nw.score({name: word_model(seed) for seed, name in enumerate(names)}, word_tokenizer(), TEXTS)
    console = Console(width=80, record=True, file=io.StringIO())
    for table in score_tables(several):
        console.print(table)
    _, _, copied = console.export_text().partition("Copied spans")
    heading, row, first = (
        next(line for line in copied.splitlines() if word in line) for word in ("model", "four", "one")
    )
    of_four = {one.group: one for one in several["four"].breakdowns["copied"]}
    change = {one.group: one for one in several.differences if (one.first, one.second) == ("four", "one")}
    for group, score in of_four.items():
        assert f"{score.nll:.3f} {change[group].difference:+.3f}" in row
        assert group.split()[-1] in heading
    assert "+" not in first
    assert "-" not in first
    assert "difference from one" in copied


def test_too_few_texts_for_a_test_are_called_too_few() -> None:
    few = nw.score({"one": word_model(1), "two": word_model(2)}, word_tokenizer(), TEXTS[:4])
    assert few.units < 6
    assert f"too few {few.unit} ({few.units}) to tell" in " ".join(shown(few).split())
    assert "no difference shown" not in shown(few)


def test_one_model_has_its_groups_in_full() -> None:
    results = nw.score({"one": word_model(1)}, word_tokenizer(), TEXTS)
    group = results["one"].breakdowns["copied"][0]
    row = next(line for line in shown(results).splitlines() if line.startswith(f" {group.group}"))
    assert row.split() == [
        "not", "copied", f"{group.tokens:,}", f"{group.nll:.3f}", f"({group.low:.3f}–{group.high:.3f})",
        f"{group.perplexity:,.2f}", f"{100 * group.share_of_nats:.1f}",
    ]  # fmt: skip
    assert "Paired differences" not in shown(results)


def test_other_tokens_are_warned_of() -> None:
    tokenizers = {"one": word_tokenizer(), "two": word_tokenizer(["the"])}
    text = shown(nw.score({"one": word_model(1), "two": word_model(2)}, tokenizers, TEXTS))
    assert "the models have different tokenizers: compare bits per byte" in text
    assert "bits per byte" in text.split("Paired differences")[1].split("New and")[0]


def test_what_is_infinite_is_said() -> None:
    plain = word_model(tie_word_embeddings=False)
    model = nw.attach(plain, "softmax")
    plain.transformer.ln_f.weight.data.zero_()
    plain.transformer.ln_f.bias.data.fill_(1.0)
    plain.lm_head.weight.data[word_tokenizer()("horse")["input_ids"][0]] = -math.inf
    text = shown(nw.score({"one": model}, word_tokenizer(), TEXT))
    assert "one: perplexity, nats per token and bits per byte: infinite, because 2 of 22 tokens have" in text
    assert "∞" in text
    assert "nan" not in text
