from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from nextword.experiments.tasks.tokenizers import word_tokenizer
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.word_probes import ProbeAnswer, WordProbe, answers, first_tokens, read_probes
from tests.helpers.fake_models import FakeModel
from tests.helpers.opened_models import decoder, encoder_decoder


@pytest.fixture(scope="module")
def tokenizer():
    return word_tokenizer([probe.prompt for probe in read_probes()])


def test_the_papers_pictures() -> None:
    probes = read_probes()
    assert [(p.name, p.copied) for p in probes] == [("choices", True)] * 5 + [("sports", False)] * 4 + [
        ("jester", True)
    ] * 2
    assert probes[0].prompt == (
        "There are plates, keys, scissors, toys, and balloons in front of me, and I pick up the"
    )
    assert probes[5].prompt == "I like tennis, baseball, golf, basketball, and"
    assert probes[9].words == ("woman", "king")
    # every word has the last place once
    assert {p.words[-1] for p in probes[:5]} == set(probes[0].words)


def test_mass_and_spread_by_hand() -> None:
    probe = WordProbe("p", "a b", ("a", "b"), copied=True)
    even, one, none = (ProbeAnswer(probe, values) for values in ((0.3, 0.3), (0.4, 0.0), (0.0, 0.0)))
    assert (even.mass, even.spread) == (0.6, pytest.approx(1.0))
    assert (one.mass, one.spread) == (0.4, 0.0)
    assert (none.mass, none.spread) == (0.0, None)
    uneven = ProbeAnswer(probe, (0.3, 0.1))
    assert uneven.spread == pytest.approx(-(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25)))


def test_probabilities_are_those_of_the_listed_words(tokenizer) -> None:
    scores = torch.randn(len(tokenizer), generator=torch.Generator().manual_seed(0))
    model = FakeModel(lambda ids, mode: (scores * (2.0 if mode == "cache_only" else 1.0)).expand(*ids.shape, -1))
    opened, probes = OpenedModel("fake", model, tokenizer), read_probes()
    for mode, factor in (("joint", 1.0), ("cache_only", 2.0)):
        expected = torch.softmax(factor * scores, 0)
        said = answers(opened, probes, mode=mode, batch_size=7)
        assert [one.probe for one in said] == probes
        for one in said:
            ids = tokenizer.convert_tokens_to_ids(list(one.probe.words))
            assert one.probabilities == pytest.approx(expected[ids].tolist())


def test_any_model_folder_can_be_asked(tmp_path: Path, tokenizer) -> None:
    attached = decoder(tokenizer, "cache").model
    for name, model in (("plain", attached.backbone), ("ours", attached)):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    probe = [WordProbe("p", "I like tennis and golf, and", ("tennis", "golf"), copied=False)]
    (with_softmax,), (with_cache,) = (answers(tmp_path / name, probe) for name in ("plain", "ours"))
    assert 0 < with_softmax.mass < 1
    assert with_cache.mass != pytest.approx(with_softmax.mass)
    assert answers(tmp_path / "ours", probe, mode="lm_only")[0].mass == pytest.approx(with_softmax.mass)
    assert answers(attached.backbone, probe, tokenizer)[0].mass == pytest.approx(with_softmax.mass)


def test_a_model_that_reads_a_source_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model:.*\('t5' given"):
        answers(encoder_decoder("t5"), read_probes())


def test_words_that_begin_alike_are_refused(tokenizer) -> None:
    with pytest.raises(ValueError, match="'p'"):
        first_tokens(tokenizer, WordProbe("p", "I like", ("submarine", "submit"), copied=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("probes = 3", r"own.toml: probes must be a list"),
        ("[[probes]", r"own.toml: must be TOML \(.*\); correct it"),
        (
            '[[probes]]\nname = "a"\ntext = "{} or {}, the"\nwords = [["x"]]\ncopied = true',
            r"words: must be 2 different words for the slots of '\{\} or \{\}, the' \(x given\)",
        ),
        ('[[probes]]\nname = "a"\ntext = "{} or {}"\nwords = [["x", "x"]]\ncopied = true', r"2 different words"),
        ('[[probes]]\nname = "a"\ntext = "{}"\nword = [["x", "y"]]\ncopied = true', r"Did you mean 'words'"),
    ],
)
def test_faults_of_a_file_are_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_probes(path)


def test_missing_and_binary_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere.toml:.*directory\)"):
        read_probes(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"binary.toml:.*probes \(not UTF-8\)"):
        read_probes(tmp_path / "binary.toml")
