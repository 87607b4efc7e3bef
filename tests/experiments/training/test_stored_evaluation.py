"""Scores and calibrations from stored states are those through the model, and load no backbone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

import nextword as nw
from nextword.cli import app
from nextword.experiments.training.stored_evaluation import test_text as stored_test_text
from nextword.experiments.training.stored_evaluation import validation_rows
from nextword.experiments.training.stored_training import ordinary, store_task_states
from nextword.experiments.training.train_config import configured
from nextword.experiments.training.train_model import train
from nextword.functional.frequency.counts import TokenCounts
from nextword.inference.datastore import BuildSettings, build_datastore
from nextword.inference.scoring.calibrate import CalibrationResults, HeldRows, calibrate_on_rows
from nextword.inference.scoring.measurement.all_models import score_models
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import OpenedModel, open_model
from nextword.inference.states import StatesSettings
from nextword.results.records import ScoreResults
from nextword.retrieval import StoredKeys
from nextword.runtime.pretrained import load_tokenizer
from tests.helpers import text_tokenizers
from tests.helpers.killed_trainings import sentences
from tests.helpers.stored_rows import backbone

TASK = {"block": 16, "window": 16, "stride": 8, "test_tokens": 300, "tuning_tokens": 64}
TRAINING = {"steps": 2, "batch_size": 4, "learning_rate": 0.01, "weights": "float32"}
HEADS = ("mos:2", "softmax+cpr:20+mi", "pg", "cache", "cache:long=40")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in float64, heads on it with random weights, its states, and a model with other weights."""
    path = tmp_path_factory.mktemp("stored")
    tokenizer = text_tokenizers.byte_level()
    model = backbone("llama", len(tokenizer))
    for name, head in {"model": None, **dict(zip(map(str, range(len(HEADS))), HEADS, strict=True))}.items():
        made: Any = model if head is None else nw.attach(model, head)
        for weight in made.next_word_head.parameters() if head is not None else ():
            torch.nn.init.normal_(weight, std=0.3)
        made.save_pretrained(path / name)
        tokenizer.save_pretrained(path / name)
    for weight in model.model.layers[1].parameters():
        weight.data.mul_(1.5)
    model.save_pretrained(path / "changed")
    tokenizer.save_pretrained(path / "changed")
    (path / "text.txt").write_text("\n".join(sentences(400)), encoding="utf-8")
    config = configured(
        {"model": str(path / "model"), "task": {"data": str(path / "text.txt"), **TASK}, "head": "softmax"}
    )
    for precision in ("float64", "float16"):
        store_task_states(config, path / precision, StatesSettings(precision=precision, layers=3, shard_tokens=900))  # type: ignore[arg-type]
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})


def _no_backbone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the backbone was loaded")

    monkeypatch.setattr("nextword.inference.scoring.opened_model.load", refuse)
    monkeypatch.setattr("nextword.experiments.training.stored_training.load", refuse)


@pytest.mark.parametrize(("precision", "most"), [("float64", 1e-10), ("float16", 2e-3)])
def test_scores_are_those_through_the_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, most: float
) -> None:
    """Every token of every head, in the same windows."""
    names = ["model", *map(str, range(len(HEADS)))]
    given, windows = stored_test_text(folder / precision)
    through = score_models(
        [lambda name=name: open_model(folder / name) for name in names],  # type: ignore[misc]
        given,
        ScoreSettings(**windows),
    )
    with monkeypatch.context() as patched:
        _no_backbone(patched)
        done = run("score", "--states", folder / precision, *(folder / name for name in names), "--out", tmp_path)
    assert done.exit_code == 0, done.output
    stored = ScoreResults.load(tmp_path / "score.json")
    assert [one.name for one in stored.models] == names
    assert len({round(one.nll, 6) for one in stored.models}) == len(names)
    for ours, theirs in zip(stored.models, through.models, strict=True):
        assert (ours.tokens, ours.head) == (300, theirs.head)
        assert ours.nll == pytest.approx(theirs.nll, abs=most)
        assert ours.values["bits_per_byte"].value == pytest.approx(theirs.values["bits_per_byte"].value, abs=most)
    again = run("score", "--states", folder / precision, *(folder / name for name in names), "--out", tmp_path)
    assert again.exit_code == 0, again.output


def test_a_score_is_what_the_training_measured(folder: Path, tmp_path: Path) -> None:
    recipe = {"states": str(folder / "float64"), "head": "softmax+proj", "training": TRAINING}
    trained = train(configured(recipe), tmp_path / "trained")
    done = run("score", "--states", folder / "float64", tmp_path / "trained", "--out", tmp_path / "score")
    assert done.exit_code == 0, done.output
    found = ScoreResults.load(tmp_path / "score" / "score.json").models[0].values
    for name, value in trained.evaluation.metrics.items():
        assert found[name].value == pytest.approx(value.value, rel=1e-6)


@pytest.mark.parametrize("head", ["cache", "cache:published"])
def test_a_calibration_is_that_through_the_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    with monkeypatch.context() as patched:
        _no_backbone(patched)
        done = run("attach", "--states", folder / "float64", "--head", head, "--out", tmp_path / "ours")
    assert done.exit_code == 0, done.output
    whole = nw.attach(nw.load(folder / "model"), head)
    rows = validation_rows(folder / "float64")
    expected = nw.calibrate(whole, torch.tensor(rows.ids))
    found = CalibrationResults.load(tmp_path / "ours" / "calibration.json")
    assert found.tokens == expected.tokens == 15 * len(rows.ids)
    for name in ("nll", "nll_without", "gain", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-10)
    assert found.settings == expected.settings
    ours = nw.load(tmp_path / "ours")
    assert ours.next_word_head.config == whole.next_word_head.config
    for name, weight in whole.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight), name


def test_a_datastore_is_searched_with_stored_states(folder: Path, tmp_path: Path) -> None:
    """The head below is that of the model's folder."""
    store = tmp_path / "store"
    build_datastore(folder / "model", folder / "text.txt", store, BuildSettings(window=16))
    words = ("attach", folder / "0", "--head", f"knn:store={store},k=4", "--tokens", 60)
    assert run(*words, "--states", folder / "float64", "--out", tmp_path / "ours").exit_code == 0
    found = CalibrationResults.load(tmp_path / "ours" / "calibration.json")
    whole = nw.attach(nw.load(folder / "0"), f"knn:store={store},k=4")
    expected = calibrate_on_rows(
        OpenedModel.of(whole, load_tokenizer(str(folder / "0"), "model")), validation_rows(folder / "float64").first(60)
    )
    assert found.head.startswith('knn:below="mos:2"')
    assert [one.nll for one in found.curve] == pytest.approx([one.nll for one in expected.curve], abs=1e-10)
    assert (found.nll, found.nll_without) == pytest.approx((expected.nll, expected.nll_without), abs=1e-10)


def training_text(folder: Path, out: Path) -> Path:
    """The first 90 % of the lines, which are the training split of the text."""
    lines = (folder / "text.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (out / "train.txt").write_text("".join(lines[: int(0.9 * len(lines))]), encoding="utf-8")
    return out / "train.txt"


def index_of(text: Path, folder: Path, out: Path) -> Path:
    assert run("ngram", "build", folder / "model", text, "--out", out / "index").exit_code == 0
    return out / "index"


@pytest.mark.parametrize("copied", [True, False])
def test_a_head_above_a_head_from_states_is_saved_with_its_calibration(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    """Also if the weights cannot be copied as files, so that the model is loaded to save it."""
    index, states = index_of(training_text(folder, tmp_path), folder, tmp_path), folder / "float64"
    train(configured({"states": str(states), "head": "softmax+proj", "training": TRAINING}), tmp_path / "below")
    if not copied:
        monkeypatch.setattr("nextword.experiments.training.stored_training.copied_backbone", lambda *_: False)
    with monkeypatch.context() as patched:
        if copied:
            _no_backbone(patched)
        words = ("attach", tmp_path / "below", "--states", states, "--head", f"ngram:index={index}")
        done = run(*words, "--out", tmp_path / "ours")
    assert done.exit_code == 0, done.output
    found = CalibrationResults.load(tmp_path / "ours" / "calibration.json")
    ours, below = nw.load(tmp_path / "ours"), nw.load(tmp_path / "below")
    assert ours.config.head["shares"] == found.settings["shares"] is not None
    assert ours.next_word_head.config.shares == found.settings["shares"]
    assert ours.next_word_head.below.config == below.next_word_head.config
    for name, weight in below.backbone.state_dict().items():
        assert torch.equal(ours.backbone.state_dict()[name], weight), name


def test_validation_rows_in_the_index_are_refused(folder: Path, tmp_path: Path) -> None:
    index = index_of(folder / "text.txt", folder, tmp_path)
    done = run("attach", "--states", folder / "float64", "--head", f"ngram:index={index}", "--out", tmp_path / "ours")
    assert done.exit_code == 2
    assert "validation rows" in done.output
    assert "must not be in the n-gram index that predicts it" in " ".join(done.output.split())
    assert not (tmp_path / "ours").exists()


def test_states_are_a_datastore(folder: Path, tmp_path: Path) -> None:
    """One that is built of the training text, in windows of a block, has the same keys, tokens and positions."""
    build_datastore(folder / "model", training_text(folder, tmp_path), tmp_path / "store", BuildSettings(window=16))
    built = StoredKeys(tmp_path / "store")
    for precision in ("float64", "float16"):
        stored = StoredKeys(folder / precision)
        assert len(stored) == len(built) // 16 * 16 - 1
        assert len(stored.manifest.shards) > 2
        every = np.arange(len(stored))
        keys = stored.keys_at(every)
        np.testing.assert_allclose(keys, built.keys_at(every), atol=0 if precision == "float16" else 2e-3)
        assert np.array_equal(keys, torch.cat([block for _, block in stored.blocks(7)]).numpy())
        assert np.array_equal(stored.tokens_at(every), built.tokens_at(every))
        assert np.array_equal(stored.positions_at(every), built.positions_at(every))
        assert stored.stretch(0, 14, 40) == built.stretch(0, 14, 40)


def test_one_store_for_states_and_datastore(folder: Path, tmp_path: Path) -> None:
    states = folder / "float64"
    words = ("--head", f"knn:store={states},k=4,overlap=4", "--tokens", 60)
    done = run("attach", "--states", states, *words, "--out", tmp_path / "ours")
    assert done.exit_code == 0, done.output
    given, windows = stored_test_text(states)
    through = score_models([lambda: open_model(tmp_path / "ours")], given, ScoreSettings(**windows))
    done = run("score", "--states", states, tmp_path / "ours", "--out", tmp_path / "score")
    assert done.exit_code == 0, done.output
    assert ScoreResults.load(tmp_path / "score" / "score.json")["ours"].nll == pytest.approx(through.nll, abs=1e-10)
    (states / "store.json").rename(tmp_path / "store.json")
    try:
        done = run("score", "--states", states, tmp_path / "ours")
        assert "states of other rows" in " ".join(done.output.split())
    finally:
        (tmp_path / "store.json").rename(states / "store.json")
    file = states / "shard-00001.states.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    try:
        with pytest.raises(ValueError, match=r"cut off or damaged\); delete shard-00001.json and states.json"):
            StoredKeys(states)
    finally:
        file.write_bytes(whole)


def test_so_many_tokens_are_read_at_most(folder: Path, tmp_path: Path) -> None:
    states = folder / "float64"
    words = ("attach", folder / "0", "--states", states, "--head", "cache:weight=0.1", "--tokens", 40)
    done = run(*words, "--out", tmp_path / "ours")
    assert done.exit_code == 0, done.output
    assert CalibrationResults.load(tmp_path / "ours" / "calibration.json").tokens == 40


def test_the_first_targets_of_rows() -> None:
    rows = HeldRows([[5, 6, 7], [8, 9]], [[5, -100, 7], [8, 9]], ["rows"])
    assert rows.first(1).labels == [[-100, -100, 7]]
    assert rows.first(9).labels == [[-100, -100, 7], [-100, 9]]
    assert rows.first(1).ids == [[5, 6, 7]]


def test_the_test_text_is_cut_where_its_tokens_end(folder: Path) -> None:
    given, windows = stored_test_text(folder / "float64")
    (example,) = given.examples
    tokens: Any = example
    assert windows == {"window": 16, "stride": 8}
    assert load_tokenizer(str(folder / "model"), "model").decode(tokens.tokens.ids) == example.text
    assert (np.diff(tokens.tokens.spans) >= 0).all()


def test_other_models_data_and_settings_are_refused(folder: Path, tmp_path: Path) -> None:
    states = folder / "float64"
    for words, said in (
        (("score", "--states", states, folder / "changed"), "must have the backbone whose states are stored"),
        (("score", "--states", states, folder / "model", "--window", 8), "--window: must be left out with --states"),
        (("score", "--states", states, folder / "model", folder / "text.txt"), "DATA: must be left out with --states"),
        (("score", "--states", tmp_path, folder / "model"), "states: must be a finished store of states"),
        (("attach", "--states", states, "--head", "mos:2", "--out", tmp_path / "a"), "can be chosen without training"),
        (("attach", folder / "changed", "--states", states, "--head", "cache", "--out", tmp_path / "a"), "backbone"),
        (("attach", "--head", "cache", "--out", tmp_path / "a"), "MODEL: must be"),
        (
            ("attach", "--states", states, "--held", "a.txt", "--head", "cache", "--out", tmp_path / "a"),
            "--held: must be left out with --states",
        ),
    ):
        done = run(*words)
        assert done.exit_code == 2, done.output
        assert said in " ".join(done.output.split())
    text = folder / "text.txt"
    whole = text.read_text(encoding="utf-8")
    try:
        text.write_text(whole[:-5000] + " other words" * 400, encoding="utf-8")
        for command in (("score", folder / "model"), ("attach", "--head", "cache", "--out", tmp_path / "a")):
            done = run(*command, "--states", states)
            assert done.exit_code == 2, done.output
            assert "the data have changed" in " ".join(done.output.split())
    finally:
        text.write_text(whole, encoding="utf-8")


def test_settings_that_calibration_filled_in_are_kept_at_every_level(folder: Path, tmp_path: Path) -> None:
    index = index_of(folder / "text.txt", folder, tmp_path)
    spec = {"head": "knn", "below": {"head": "ngram", "index": str(index), "below": "cache"}}
    model = nw.attach(nw.load(folder / "model"), spec)
    calibrated = model.next_word_head
    calibrated.configure({"shares": [[0.9, *[0.025] * 4]] * len(calibrated.below.config.lengths), "weight": 0.2})
    calibrated.below.below.configure({"temperature": 7.0})
    model.configure_head()  # so that head and configuration know of the head below
    found = ordinary(model, str(folder / "model")).next_word_head
    assert found.config == calibrated.config
    assert found.below.config.shares == calibrated.below.config.shares
    assert found.below.below.config.temperature == 7.0


def test_classes_of_f2_need_their_counts_only_once(folder: Path, tmp_path: Path) -> None:
    """A head above it, and the whole model of a head from states, are made without the file of the counts."""
    opened = nw.load(folder / "model")
    counts = np.arange(len(opened.get_output_embeddings().weight), 0, -1)
    TokenCounts(counts, None, "made").save(tmp_path / "counts.npz")
    f2 = nw.attach(opened, {"head": "f2", "counts": str(tmp_path / "counts.npz")})
    (tmp_path / "counts.npz").unlink()
    whole = ordinary(f2, str(folder / "model"))
    ids = torch.tensor([[5, 9, 7, 30]])
    assert torch.equal(whole(ids).logits, f2.eval()(ids).logits)
    above = nw.attach(f2, f"ngram:index={index_of(folder / 'text.txt', folder, tmp_path)}")
    assert above.next_word_head.below is f2.next_word_head
    f2.next_word_head.configure({"class_top_k": 3})
    again = nw.attach(above, above.next_word_head.config.model_copy(update={"below": None}))
    assert again.next_word_head.below is f2.next_word_head
    again.save_pretrained(tmp_path / "above")
    assert nw.load(tmp_path / "above").next_word_head.below.config == f2.next_word_head.config
