"""The head ``ngram``: attached, saved and loaded, calibrated, trained, written with, served; what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.experiments.comparison.one_run import Measured
from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.heads.ngram import with_ngrams
from nextword.inference.scoring.opened_model import open_model
from nextword.model.head_cache.kv_cache import LongMemory
from nextword.results.records.comparison_results import Evaluation
from nextword.retrieval.ngram import NgramModel
from tests.helpers.running_server import running, small_model
from tests.helpers.small_datastores import small_store
from tests.helpers.stored_texts import built, scanned_mixture, weights
from tests.helpers.text_tokenizers import byte_level
from tests.helpers.word_models import TEXT, WORDS, family_model, word_model, word_tokenizer

pytest.importorskip("pydivsufsort")

V = 48
TOKENIZER = word_tokenizer()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index of a text, weights, a model."""
    tokenizer = tokenizer_fingerprint(TOKENIZER)
    built(tmp_path / "index", [TOKENIZER(TEXT)["input_ids"]], V, tokenizer)
    weights().model_copy(update={"tokenizer": tokenizer}).save(tmp_path / "weights.json")
    return tmp_path


def attached(folder: Path, settings: str = "", below: str = "softmax") -> Any:
    torch.manual_seed(0)
    return nw.attach(nw.attach(word_model(n_positions=64), below), f'ngram:index="{folder / "index"}"{settings}')


def ids_of(text: str) -> torch.Tensor:
    return torch.tensor([TOKENIZER(text)["input_ids"]])


@torch.no_grad()
@pytest.mark.parametrize("mix", ["fixed", "learned"])
def test_the_mixture_is_that_found_by_scanning(folder: Path, mix: str) -> None:
    model, ids = attached(folder, f',weights="{folder / "weights.json"}",mix={mix}'), ids_of(TEXT)[:, 3:]
    alone = model.distribution(ids, mode="below").probs().numpy()
    found = model.distribution(ids).probs().numpy()
    corpus = [TOKENIZER(TEXT)["input_ids"]]
    for position in range(ids.shape[1]):
        expected = scanned_mixture(corpus, ids[0, : position + 1].tolist(), alone[position], weights())
        assert found[position] == pytest.approx(expected, abs=1e-6 if mix == "learned" else 1e-13)


@torch.no_grad()
def test_it_is_with_ngrams_that_stays(folder: Path) -> None:
    model = nw.attach(word_model(n_positions=64), "cache")
    memory = NgramModel.open(folder / "index", folder / "weights.json", TOKENIZER)
    with with_ngrams(model, memory):
        inside = model.distribution(ids_of(TEXT)).log_probs()
    over = nw.attach(model, f'ngram:index="{folder / "index"}",weights="{folder / "weights.json"}"')
    assert over.next_word_head.below is model.next_word_head
    assert torch.equal(over.distribution(ids_of(TEXT)).log_probs(), inside)


@torch.no_grad()
def test_it_starts_with_next_to_nothing(folder: Path) -> None:
    model = attached(folder)
    ids = ids_of("the queen ran far and the old dog saw a horse on the king")
    targets = ids[0, 1:, None]
    mixed, alone = (model.distribution(ids, mode=mode)[torch.arange(len(targets))] for mode in (None, "below"))
    assert (alone.log_prob(targets) - mixed.log_prob(targets)).max() <= -np.log(0.97) + 1e-12


@pytest.mark.parametrize(
    ("settings", "below"), [("", "mos:2+c"), (",mix=learned", "cache"), (",evidence=[1,2],limit=9,lengths=[1,3]", "pg")]
)
def test_saved_and_loaded(folder: Path, settings: str, below: str) -> None:
    model = attached(folder, settings, below)
    if model.next_word_head.mixing is not None:
        model.next_word_head.mixing.logits.data[:, 1] += 2.0
    model.save_pretrained(folder / "saved")
    TOKENIZER.save_pretrained(folder / "saved")
    loaded = open_model(folder / "saved", "cpu").model
    assert loaded.next_word_head.config == model.next_word_head.config
    ids = ids_of(TEXT)
    assert torch.equal(loaded.distribution(ids).log_probs(), model.distribution(ids).log_probs())
    again = nw.attach(loaded, f'ngram:index="{folder / "index"}"')
    assert again.next_word_head.below is loaded.next_word_head.below, "the trained head stays below another index"


def test_an_index_that_is_gone_or_holds_another_corpus_is_refused(folder: Path) -> None:
    attached(folder).save_pretrained(folder / "saved")
    shutil.move(folder / "index", folder / "moved")
    with pytest.raises(ValueError, match="n-gram index"):
        nw.load(folder / "saved")
    built(folder / "index", [TOKENIZER(TEXT + " the")["input_ids"]], V, tokenizer_fingerprint(TOKENIZER))
    with pytest.raises(ValueError, match=r"index:.*head was attached"):
        nw.load(folder / "saved")
    path = folder / "saved" / "config.json"
    config = json.loads(path.read_text())
    config["head"]["index"] = str(folder / "moved")
    path.write_text(json.dumps(config))
    nw.load(folder / "saved")


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    spec = f'ngram:index="{folder / "index"}"'
    with pytest.raises(ValueError, match="decoder-only"):
        nw.attach(family_model("t5"), spec)
    with pytest.raises(ValueError, match=r"48 tokens or more \(40"):
        nw.attach(word_model(vocab_size=40), spec)
    with pytest.raises(ValueError, match="weights: needs the index"):
        nw.attach(word_model(), "ngram:weights=weights.json")
    other = attached(folder)
    with pytest.raises(ValueError, match=r"index:.*model's tokenizer"):
        nw.score(other, word_tokenizer([*WORDS[1:], WORDS[0]]), TEXT)
    with pytest.raises(ValueError, match=r"shares:.*11 rows of 5 numbers"):
        other.configure_head(shares=[[1.0]])


def test_stored_text_does_not_calibrate(folder: Path) -> None:
    """It would be predicted by itself."""
    refused = r"must not be in the n-gram index that predicts it .*; take another text$"
    with pytest.raises(ValueError, match=refused):
        nw.calibrate(attached(folder), TEXT, TOKENIZER)
    with pytest.raises(ValueError, match=refused):
        nw.calibrate(attached(folder), ids_of(TEXT))


@torch.no_grad()
def test_an_index_is_found_from_another_working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    model = nw.attach(word_model(n_positions=64), "ngram:index=index")
    model.save_pretrained("saved")
    assert model.next_word_head.config.index == model.config.head["index"] == "index"
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    loaded = nw.load(folder / "saved")
    assert loaded.next_word_head.config.index == str(folder / "index")
    ids = ids_of("the king saw the")
    assert torch.equal(loaded.distribution(ids).probs(), model.distribution(ids).probs())


def test_shares_are_calibrated_and_saved(folder: Path) -> None:
    random = np.random.default_rng(0)
    held_out = [" ".join(random.choice(WORDS, 6)) + " " + TEXT.partition(" it ")[0] for _ in range(4)]
    model = attached(folder)
    results = nw.calibrate(model, held_out, TOKENIZER)
    assert results.helps
    assert nw.score(model, TOKENIZER, held_out).nll == pytest.approx(results.nll, abs=1e-9)
    Measured(evaluation=Evaluation(metrics={}, tuned=results.settings), tuned=results.settings)
    model.save_pretrained(folder / "saved")
    assert nw.load(folder / "saved").next_word_head.config.shares == results.settings["shares"]
    with pytest.raises(ValueError, match="settings can be chosen"):
        nw.calibrate(attached(folder, ",mix=learned"), held_out, TOKENIZER)


def test_learned_shares_reach_those_of_the_calibration(folder: Path) -> None:
    """The likelihood is concave in the shares, so training ends where expectation maximisation does."""
    text = ids_of(" ".join(np.random.default_rng(1).choice(WORDS, 30)) + " " + TEXT)
    model = attached(folder, ",mix=learned,evidence=[1,2],lengths=[1]")
    model.requires_grad_(False)
    logits = model.next_word_head.mixing.logits.requires_grad_(True)
    optimizer = torch.optim.Adam([logits], lr=0.2)
    for _ in range(150):
        optimizer.zero_grad()
        loss = model(text, labels=text).loss
        loss.backward()
        optimizer.step()
    fixed = attached(folder, ",evidence=[1,2],lengths=[1]")
    results = nw.calibrate(fixed, text, apply=False)
    assert loss.item() <= results.nll + 1e-3
    assert loss.item() < results.nll_without - 0.1


def test_writing_is_the_same_with_and_without_a_kv_cache(folder: Path) -> None:
    model = attached(folder, f',weights="{folder / "weights.json"}"', "cache")
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    prompt = ids_of("the old king sat")
    plain = model.generate(prompt, **options)
    assert model.generate(prompt, use_cache=False, **options).tolist() == plain.tolist()
    assert model.generate(prompt, draft="prompt", **options).tolist() == plain.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("below", ["softmax", "mos:3+c", "cache"])
def test_the_checker_passes(folder: Path, below: str) -> None:
    model = attached(folder, f',weights="{folder / "weights.json"}"', below)
    nw.check(model, [TEXT], tokenizer=TOKENIZER, lengths=[6]).raise_if_failed()


@torch.no_grad()
def test_over_a_datastore_and_over_another_corpus(folder: Path) -> None:
    """Each is a component of its own; the heads below keep what they have."""
    path, store = small_store(folder)
    retrieving = nw.attach(nw.load(path), f'knn:store="{store}",k=4,weight=0.3')
    built(folder / "second", [TOKENIZER("the queen saw the old dog")["input_ids"]], V, tokenizer_fingerprint(TOKENIZER))
    one = nw.attach(retrieving, f'ngram:index="{folder / "index"}"')
    assert one.next_word_head.below is retrieving.next_word_head
    inner = {"head": "ngram", "index": str(folder / "index"), "below": "softmax"}
    two = nw.attach(nw.load(path), {"head": "ngram", "index": str(folder / "second"), "below": inner})
    for model, names in ((one, {"knn", "text"}), (two, {"text", "text 2"})):
        distribution = model.distribution(ids_of(TEXT))
        shares = distribution.sources(torch.arange(V).expand(len(distribution), V))
        assert names <= shares.keys()
        assert all((shares[name] > 1e-4).any() for name in names)
        torch.testing.assert_close(sum(shares.values()), distribution.probs())
        assert distribution.stands_in_store().keys() == names == model.next_word_head.stored_texts().keys()


def test_documents_of_a_consecutive_stream_do_not_run_into_each_other(folder: Path) -> None:
    """A match ends where a document begins, as it does where the text begins."""
    start = 1
    model = attached(folder, f',weights="{folder / "weights.json"}"')
    words = TOKENIZER(TEXT)["input_ids"]
    row = torch.tensor([[*words[:4], start, *words[4:9]]])
    memory = LongMemory(start)
    with torch.no_grad():
        new = torch.ones_like(row, dtype=torch.bool)
        together = model.distribution(row, memory=memory, new_positions=new).sources(row[0, :, None])["text"]
        apart = model.distribution(row[:, 4:]).sources(row[0, 4:, None])["text"]
    torch.testing.assert_close(together[4:], apart)


def test_served_with_the_places_of_the_corpus(tmp_path: Path) -> None:
    said = "The king sat on a mat. The queen saw the king."
    tokenizer = byte_level()
    index = built(tmp_path, [tokenizer(said)["input_ids"]], len(tokenizer), tokenizer_fingerprint(tokenizer))
    opened = small_model({"head": "ngram", "index": str(index.folder)})
    opened.model.configure_head(shares=[[0.1, 0.9, 0.0, 0.0, 0.0]] * 11)
    with running(opened) as served:
        [choice] = served.complete("The queen", max_tokens=8, temperature=0, sources=True).json()["choices"]
    assert choice["text"].startswith(" saw the king.")
    assert min(token["shares"]["text"] for token in choice["nextword"]["tokens"]) > 0.5


def test_a_bare_head_is_the_one_below() -> None:
    model = nw.attach(word_model(n_positions=32), "cache")
    over = nw.attach(model, "ngram")
    ids = ids_of(TEXT)
    assert torch.equal(over.distribution(ids).log_probs(), model.distribution(ids).log_probs())
    assert over.next_word_head.calibration() is None
