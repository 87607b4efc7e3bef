"""Another head on a finished model: the same weights, settings chosen on held-out text, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import nextword as nw
from nextword.experiments.training.added_head import add_head
from nextword.inference.scoring.calibrate import CalibrationResults
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.opened_model import open_model
from tests.helpers.small_datastores import small_store

STRANGERS = ["it ran far and the queen saw the old dog on a horse", "the dog ran the king far and the queen ran far"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return small_store(tmp_path_factory.mktemp("added"))


def held() -> GivenTexts:
    return GivenTexts.of([Example(text=text, id=number) for number, text in enumerate(STRANGERS)], ["strangers"])


def nll(folder: Path, **settings: float | None) -> float:
    opened = open_model(folder)
    opened.model.configure_head(**settings)
    return nw.score(opened.model, opened.tokenizer, STRANGERS).models[0].nll


@pytest.mark.slow
@pytest.mark.parametrize("head", ["cache", "knn"])
def test_settings_are_chosen_and_weights_are_the_same(made: tuple[Path, Path], tmp_path: Path, head: str) -> None:
    folder, store = made
    spec = f'knn:store="{store}",k=8' if head == "knn" else head
    added = add_head(open_model(folder), spec, tmp_path / "new", held())
    assert added.calibration == CalibrationResults.load(tmp_path / "new" / "calibration.json")
    best = added.calibration.best
    assert set(best) == {"temperature", "weight"}
    before, after = nw.load(folder), nw.load(tmp_path / "new")
    config = after.next_word_head.config
    assert {name: getattr(config, name) for name in added.calibration.settings} == added.calibration.settings
    for name, value in before.backbone.state_dict().items():
        assert torch.equal(value, after.backbone.state_dict()[name]), name
    lowest = nll(tmp_path / "new", **best)
    assert added.calibration.nll_without - added.calibration.gain == pytest.approx(lowest, abs=1e-6)
    for temperature in (0.5, 1.0, 4.0):
        for weight in (0.05, 0.2, 0.8):
            assert lowest <= nll(tmp_path / "new", temperature=temperature, weight=weight) + 1e-6


@pytest.mark.slow
def test_one_normaliser_has_a_temperature_alone(made: tuple[Path, Path], tmp_path: Path) -> None:
    folder, store = made
    added = add_head(open_model(folder), f'knn:store="{store}",k=8,mix=joint', tmp_path / "new", held())
    assert added.calibration is not None
    assert set(added.calibration.settings) == {"temperature"}
    best = nll(tmp_path / "new")
    others = [nll(tmp_path / "new", temperature=temperature) for temperature in (0.06, 0.5, 2.0, 8.0)]
    assert best <= min(others) + 1e-6 < max(others)


def test_one_over_another_keeps_what_was_chosen(made: tuple[Path, Path], tmp_path: Path) -> None:
    folder, store = made
    add_head(open_model(folder), "cache:temperature=2,weight=0.3", tmp_path / "cache")
    added = add_head(open_model(tmp_path / "cache"), f'knn:store="{store}",k=8', tmp_path / "both")
    assert added.replaced is None
    assert str(add_head(open_model(tmp_path / "both"), "cache", tmp_path / "alone").replaced).startswith("knn:")
    assert added.calibration is None
    assert added.can_be_calibrated
    below = nw.load(tmp_path / "both").next_word_head.below.config
    assert (below.temperature, below.weight) == (2, 0.3)


def test_bad_input(made: tuple[Path, Path], tmp_path: Path) -> None:
    opened = open_model(made[0])
    with pytest.raises(ValueError, match=r"out:.*another"):
        add_head(opened, "cache", made[0])
    with pytest.raises(ValueError, match=r"held:.*\('mos:2' given"):
        add_head(opened, "mos:2", tmp_path / "new", held())
    assert not (tmp_path / "new").exists()


def test_ngram_needs_an_index(made: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"head: ngram must have the index.*write ngram:index=FOLDER"):
        add_head(open_model(made[0]), "ngram", tmp_path / "new")
    assert not (tmp_path / "new").exists()
