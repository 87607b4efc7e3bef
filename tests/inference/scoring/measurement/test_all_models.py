from __future__ import annotations

import gc
import json
import math
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import log_softmax

import nextword as nw
from nextword.conditioning.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.evaluation.metrics.statistics import holm
from nextword.functional.frequency import TokenCounts, tokenizer_fingerprint
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.long_text import windows_after
from nextword.inference.scoring.measurement.all_models import score_models
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.results.records import ScoreResults
from tests.helpers.conditioned_models import encoder
from tests.helpers.families import END, START
from tests.helpers.opened_models import POSITIONS, conditioned
from tests.helpers.word_models import TEXT, WORDS, family_model, word_model, word_tokenizer

TOKENIZER = word_tokenizer()
IDS = TOKENIZER(TEXT)["input_ids"]


def nats_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The textbook: the negative logarithm of softmax at each target, in the precision of the logits."""
    return -log_softmax(logits, -1).gather(-1, targets[:, None])[:, 0]


def windowed(model, ids: list[int], size: int, stride: int) -> float:
    """Nats of a text after a start token, in windows, by hand."""
    stream = torch.tensor([START, *ids])
    nats = 0.0
    for window in windows_after(1, len(stream), size, stride):
        row = stream[window.begin : window.begin + window.size + 1]
        with torch.no_grad():
            logits = model(input_ids=row[None, :-1]).logits[0]
        nats += float(nats_of(logits, row[1:])[-window.scored :].sum())
    return nats


def windowed_losses(model, ids: list[int], size: int, stride: int) -> float:
    """The same by the losses of transformers."""
    stream = torch.tensor([START, *ids])
    nats = 0.0
    for window in windows_after(1, len(stream), size, stride):
        labels = stream[window.begin : window.begin + window.size + 1].clone()
        labels[: len(labels) - window.scored] = -100
        with torch.no_grad():
            row = stream[window.begin : window.begin + window.size + 1]
            nats += float(model(input_ids=row[None], labels=labels[None]).loss) * window.scored
    return nats


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "gemma2", "opt"])
@pytest.mark.parametrize(("size", "stride"), [(6, 3), (5, 5), (8, 1), (len(IDS), 4)])
def test_windows_are_scored_as_transformers_scores_them(family: str, size: int, stride: int) -> None:
    model = family_model(family)
    by_hand, by_loss = windowed(model, IDS, size, stride), windowed_losses(model, IDS, size, stride)
    found = nw.score(model, TOKENIZER, TEXT, window=size, stride=stride, batch_size=2)
    assert found.models[0].tokens == len(IDS)
    assert found.nll == pytest.approx(by_hand / len(IDS), rel=1e-12)
    assert found.nll == pytest.approx(by_loss / len(IDS), rel=1e-5)  # transformers computes its loss in float32
    assert found.perplexity == pytest.approx(math.exp(by_hand / len(IDS)), rel=1e-12)
    assert found.bits_per_byte == pytest.approx(by_hand / math.log(2) / len(TEXT.encode()), rel=1e-12)


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_targets_are_scored_after_their_sources(family: str) -> None:
    model = family_model(family)
    examples = [Example("the queen saw it", source=TEXT, id=1), Example("a dog", source="the old dog ran", id=2)]
    by_hand = 0.0
    for example in examples:
        labels = torch.tensor([[*TOKENIZER(example.text)["input_ids"], END]])
        with torch.no_grad():
            out = model(input_ids=torch.tensor([TOKENIZER(example.source)["input_ids"]]), labels=labels)
        by_hand += float(nats_of(out.logits[0], labels[0]).sum())
    found = nw.score(model, TOKENIZER, examples).models[0]
    assert found.nll == pytest.approx(by_hand / found.tokens, rel=1e-12)
    assert (found.tokens, found.window, found.reads) == (8, None, ["source"])
    groups = {one.group: one.tokens for one in found.breakdowns["repetition"]}
    # the queen saw it | dog stand in the sources, a does not; two end tokens
    assert groups == {"new": 1, "repeated from the source": 5, "special tokens": 2}
    # all six words occur once, and end tokens are not counted: 40, 70 and 90 % are reached by the third, fifth, sixth
    groups = {one.group: one.tokens for one in found.breakdowns["frequency"]}
    assert sum(groups.values()) == 8
    assert groups["special tokens"] == 2


def test_prompts_are_read_and_not_scored() -> None:
    model = word_model()
    prompt, text = " ".join(TEXT.split()[:12]) + " ", " ".join(TEXT.split()[12:])
    found = nw.score(model, TOKENIZER, Example(text, prompt=prompt), window=6, stride=3)
    ids = [START, *IDS]
    by_hand = 0.0
    for first in (13, 16, 19, 22):  # the prompt is longer than a window: three tokens at a time
        row = torch.tensor(ids[max(0, min(first + 3, len(ids)) - 7) : first + 3])
        scored = min(3, len(ids) - first)
        with torch.no_grad():
            by_hand += float(nats_of(model(row[None]).logits[0, :-1], row[1:])[-scored:].sum())
    assert found.models[0].tokens == len(ids) - 13
    assert found.nll == pytest.approx(by_hand / (len(ids) - 13), rel=1e-12)
    assert found.models[0].reads == ["prompt"]


def test_auxiliary_texts_are_read() -> None:
    torch.manual_seed(5)
    # adjusts the output layer by the text from the start, so that another text gives another likelihood
    model = nw.attach(word_model(), "softmax", conditioner="dau", encoder=encoder().double()).eval()
    with torch.no_grad():
        for weight in model.conditioner.parameters():
            weight.normal_(std=0.3)
    auxiliary = AuxiliaryTokenizer(word_tokenizer())
    examples = [Example("the king sat", auxiliary="a horse"), Example("a dog ran", auxiliary="the old dog")]
    found = nw.score(model, TOKENIZER, examples, auxiliary_tokenizer=auxiliary, batch_size=1)
    by_hand = 0.0
    for example in examples:
        ids = torch.tensor([[START, *TOKENIZER(example.text)["input_ids"]]])
        with torch.no_grad():
            said = model.distribution(ids[:, :-1], **auxiliary([example.auxiliary])).log_probs()
        by_hand -= float(said.gather(-1, ids[0, 1:, None]).sum())
    assert found.nll == pytest.approx(by_hand / 6, rel=1e-12)
    assert found.models[0].reads == ["auxiliary"]
    other = [Example(example.text, auxiliary="far far") for example in examples]
    assert nw.score(model, TOKENIZER, other, auxiliary_tokenizer=auxiliary).nll != pytest.approx(found.nll, rel=1e-6)
    with pytest.raises(ValueError, match="auxiliary"):
        nw.score(model, TOKENIZER, "the king", auxiliary_tokenizer=auxiliary)
    with pytest.raises(ValueError, match="auxiliary_tokenizer: must be given"):
        nw.score(model, TOKENIZER, examples)


@pytest.mark.parametrize("batch_size", [1, 2, 50])
def test_texts_of_any_length_are_scored_each_by_itself(batch_size: int) -> None:
    model = word_model()
    texts = [TEXT, "king", "the king", "</s></s>", TEXT[:30], "é " * 15 + "é"]  # the last is exactly one window
    found = nw.score(model, TOKENIZER, texts, batch_size=batch_size)
    rows = [TOKENIZER(text)["input_ids"] for text in texts]
    assert len(rows[-1]) == 16
    nats = sum(windowed(model, row, min(16, len(row)), min(8, len(row))) for row in rows)
    assert found.models[0].tokens == sum(map(len, rows))
    assert found.nll * found.models[0].tokens == pytest.approx(nats, rel=1e-12)
    assert (found.models[0].window, found.models[0].stride) == (16, 8)
    assert (found.texts, found.bytes) == (6, sum(len(text.encode()) for text in texts))


def test_groups_are_parts_of_the_whole() -> None:
    found = nw.score(word_model(), TOKENIZER, [TEXT, "the old dog"]).models[0]
    nats = found.nll * found.tokens
    assert set(found.breakdowns) == {"repetition", "copied", "frequency", "position"}
    for groups in found.breakdowns.values():
        assert sum(one.tokens for one in groups) == found.tokens
        assert sum(one.nats for one in groups) == pytest.approx(nats)
        assert sum(one.share_of_nats for one in groups) == pytest.approx(1)
        assert all(one.perplexity == pytest.approx(math.exp(one.nats / one.tokens)) for one in groups)


def test_models_of_the_same_tokens_are_compared_by_token_and_by_group(tmp_path: Path) -> None:
    texts = [f"{TEXT} {word}" for word in WORDS] * 2
    models = {"one": word_model(1), "two": nw.attach(word_model(2), "cache")}
    found = nw.score(models, TOKENIZER, texts)
    assert (found.same_tokens, found.unit, found.units) == (True, "texts", 30)
    overall, *by_group = found.differences
    assert (overall.first, overall.second, overall.measure, overall.group) == ("two", "one", "nll", None)
    assert overall.difference == pytest.approx(found["two"].nll - found["one"].nll)
    assert overall.low < overall.difference < overall.high
    assert overall.p_holm == overall.p_permutation
    of_two, of_one = ({one.group: one.nll for one in found[name].breakdowns["copied"]} for name in ("two", "one"))
    copied = {one.group: one.difference for one in by_group if one.breakdown == "copied"}
    assert copied == pytest.approx({group: of_two[group] - of_one[group] for group in of_one})
    with pytest.raises(ValueError, match=r"result\['one'\]"):
        _ = found.perplexity
    found.save(tmp_path / "score.json")
    assert ScoreResults.load(tmp_path / "score.json") == found


def test_several_tests_are_corrected_for() -> None:
    texts = [f"{TEXT} {word}" for word in [*WORDS, *WORDS]]
    found = nw.score(
        {name: word_model(seed, initializer_range=0.05) for seed, name in enumerate("abc")}, TOKENIZER, texts
    )
    for one in (found.differences[:3], found.differences[3:]):
        assert [pair.p_holm for pair in one] == holm([pair.p_permutation for pair in one])
    assert [(one.first, one.second) for one in found.differences[:3]] == [("b", "a"), ("c", "a"), ("c", "b")]
    assert any(one.p_holm > one.p_permutation for one in found.differences)


def test_groups_that_differ_are_not_compared() -> None:
    texts = [f"{TEXT} {word}" for word in [*WORDS, *WORDS]]
    found = nw.score({"long": word_model(), "short": word_model(n_positions=8)}, TOKENIZER, texts)
    # what is too far back depends on the window, how frequent a token is does not
    assert {one.breakdown for one in found.differences} == {None, "frequency", "position"}


def test_models_of_other_tokens_are_compared_by_byte() -> None:
    texts = [f"{TEXT} {word}" for word in WORDS] * 2
    other = word_tokenizer(["the", "king"])  # all other words are unknown, and "é" is one token of one unknown
    found = nw.score({"one": word_model(1), "two": word_model(2)}, {"one": TOKENIZER, "two": other}, texts)
    assert not found.same_tokens
    (overall,) = found.differences
    assert overall.measure == "bits_per_byte"
    assert overall.difference == pytest.approx(found["two"].bits_per_byte - found["one"].bits_per_byte)
    assert overall.low < overall.difference < overall.high


def test_a_limit_cuts_the_same_text_for_all_models() -> None:
    letters = word_tokenizer(["the"])
    found = nw.score({"one": word_model(1), "two": word_model(2)}, TOKENIZER, [TEXT, TEXT, TEXT], limit=len(IDS) + 4)
    assert (found.texts, found.bytes) == (2, len(TEXT) + len("the king sat on"))
    assert {model.tokens for model in found.models} == {len(IDS) + 4}
    assert nw.score(word_model(), letters, TEXT, limit=3).bytes == len("the king sat")


def test_a_long_text_is_drawn_in_pieces_of_bytes() -> None:
    long = " ".join([TEXT] * 40)
    found = nw.score({"one": word_model(1), "two": word_model(2)}, TOKENIZER, long)
    assert (found.unit, found.units) == ("pieces of 1,024 bytes", -(-len(long) // 1024))
    value = found["one"].values["nll"]
    assert value.low < value.value < value.high
    assert found.differences[0].p_permutation is not None


def test_frequencies_may_be_counted_before(tmp_path: Path) -> None:
    counts = np.zeros(48, dtype=np.int64)
    counts[IDS[0]], counts[IDS[1]] = 90, 10  # the, king: the second begins at 90 % of all
    path = tmp_path / "counts.npz"
    TokenCounts(counts, tokenizer_fingerprint(TOKENIZER), "a corpus").save(path)
    found = nw.score(word_model(), TOKENIZER, "the king sat the", counts=str(path))
    groups = {one.group: one.tokens for one in found.models[0].breakdowns["frequency"]}
    assert groups == {"frequent": 2, "very rare": 1, "never counted": 1}
    assert "in a corpus" in found.breakdowns["frequency"].meaning
    TokenCounts(counts, "another", "a corpus").save(path)
    with pytest.raises(ValueError, match="were made with another tokenizer"):
        nw.score(word_model(), TOKENIZER, TEXT, counts=str(path))


def test_a_token_of_probability_zero_is_said_plainly(tmp_path: Path) -> None:
    plain = word_model(tie_word_embeddings=False)
    model = nw.attach(plain, "softmax")
    with torch.no_grad():  # every state is all ones, and the score of "horse" is minus infinity
        plain.transformer.ln_f.weight.zero_()
        plain.transformer.ln_f.bias.fill_(1.0)
        plain.lm_head.weight[IDS[5]] = -math.inf
    found = nw.score({"one": word_model(), "two": model}, TOKENIZER, [TEXT] * 20, tokens=tmp_path / "tokens.jsonl")
    two = found["two"]
    assert (two.impossible, two.perplexity, two.values) == (40, math.inf, {})
    assert two.undefined["perplexity"] == f"infinite, because 40 of {20 * len(IDS)} tokens have probability 0"
    assert {one.group for one in found.differences if one.breakdown == "frequency"} == {"frequent", "rare", "very rare"}
    assert [one for one in found.differences if one.group is None] == []
    groups = {one.group: one for one in two.breakdowns["frequency"]}
    assert (groups["medium"].impossible, groups["medium"].nll, groups["medium"].perplexity) == (40, None, math.inf)
    assert groups["frequent"].nll is not None
    found.save(tmp_path / "score.json")
    lines = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text().splitlines()]
    assert {line["token"] for line in lines if line["log_prob"] is None} == {"horse"}


@pytest.mark.parametrize(
    ("texts", "settings", "message"),
    [
        ("", {}, r"must have a text that is not empty \(1 empty ones given\)"),
        ([], {}, r"must have a text that is not empty \(none given\)"),
        (TEXT, {"window": 17}, r"window: must be at most 16, what 'GPT2LMHeadModel' can see \(17 given\)"),
        (TEXT, {"stride": 17}, r"stride: must be at most 16, the window of 'GPT2LMHeadModel' \(17 given\)"),
        (TEXT, {"window": 4, "stride": 5}, r"stride: must be at most the window of 4 \(5 given\)"),
        (TEXT, {"windw": 4}, "windw: unknown key. Did you mean 'window'"),
        (TEXT, {"counts": "none.npz"}, "counts: cannot read 'none.npz'"),
    ],
)
def test_what_cannot_be_scored_is_said(texts, settings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nw.score(word_model(), TOKENIZER, texts, **settings)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transformer.h.1.mlp.c_fc.weight", r"token 1 of text 1 is nan: the weights .*h\.1\.mlp\.c_fc\.weight are no"),
        ("transformer.wte.weight", r"GPT2LMHeadModel: the weights transformer\.wte\.weight are not finite numbers"),
    ],
)
def test_weights_that_are_no_numbers_are_named(name: str, message: str) -> None:
    model = word_model()
    model.get_parameter(name).data[IDS[0], 0] = math.nan
    with pytest.raises(ValueError, match=message):
        nw.score(model, TOKENIZER, TEXT)


def test_tokens_that_a_model_does_not_know_are_named() -> None:
    tokenizer = word_tokenizer([*WORDS, *(f"word{number}" for number in range(40))])
    with pytest.raises(ValueError, match=r"\('word34'\)"):
        nw.score(word_model(), tokenizer, "the word34")


def test_targets_longer_than_a_decoder_are_refused_and_long_sources_are_cut() -> None:
    model = family_model("bart")  # 128 positions
    with pytest.raises(ValueError, match=r"128 tokens.*\(131 given"):
        nw.score(model, TOKENIZER, Example("the " * 130, source="a dog"))
    source = "the king " * 100
    found = nw.score(model, TOKENIZER, Example("the dog", source=source))
    assert found.models[0].cut_sources == 1
    assert found.nll == pytest.approx(nw.score(model, TOKENIZER, Example("the dog", source="the king " * 64)).nll)


def test_empty_texts_are_left_out_and_counted() -> None:
    found = nw.score(word_model(), TOKENIZER, ["the king", "", " \n"])
    assert (found.texts, found.empty) == (1, 2)


def test_line_ends_count_as_bytes() -> None:
    found = nw.score(word_model(), TOKENIZER, "the king\r\nsat\r\n")
    assert found.bytes == 15
    assert found.models[0].values["bits_per_byte"].n == 15


@pytest.mark.slow
def test_one_model_after_the_other_is_in_memory() -> None:
    alive: list[weakref.ref] = []

    def opened(name: str) -> OpenedModel:
        gc.collect()
        assert not [one for one in alive if one() is not None]
        model = nw.attach(word_model(), "softmax")
        alive.append(weakref.ref(model))
        return OpenedModel(name, model, TOKENIZER)

    examples = GivenTexts.of([Example(TEXT)], ["texts"])
    found = score_models([lambda: opened("a"), lambda: opened("b")], examples, ScoreSettings())
    assert [one.name for one in found.models] == ["a", "b"]
    assert found.differences[0].difference == 0


def test_a_model_of_someone_else_is_left_as_it_was() -> None:
    model = word_model().train()
    nw.score(model, TOKENIZER, TEXT)
    assert model.training
    assert all(module.training for module in model.modules())


def test_places_of_a_prefix_are_none_of_the_window() -> None:
    opened = conditioned("softmax", "prefix:3")
    text, following = "The king sat on the throne. " * 20, "the king"
    found = score_models(
        [lambda: opened], GivenTexts.of([Example(text, auxiliary=following)], ["texts"]), ScoreSettings()
    )
    assert found.models[0].window == POSITIONS - 3
    assert found.models[0].tokens == len(opened.tokenizer(text)["input_ids"])


def test_the_name_of_a_file_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "chapter.txt"
    file.write_text("The king sat.", encoding="utf-8")
    with pytest.raises(ValueError, match=r"texts:.*texts, not files"):
        nw.score(object(), None, [str(file)])  # type: ignore[arg-type]
