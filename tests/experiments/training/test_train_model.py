"""One training, killed at any moment: the same call goes on, and the model is the same, bit for bit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import nextword as nw
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.experiments.training import train_model as module
from nextword.experiments.training.resume import TrainingIdentity
from nextword.experiments.training.settings import TrainingSettings, merged
from nextword.experiments.training.starting_model import data_task
from nextword.experiments.training.train_config import configured
from nextword.experiments.training.train_model import train
from nextword.heads.input_states import MultiInputConfig
from nextword.inference.scoring.opened_model import open_model
from nextword.results.records import locked
from nextword.results.records.comparison_results import TrainingResults
from nextword.runtime.progress import Watcher
from tests.helpers.killed_trainings import SMALL, Moment, saved_weights, sentences, train_killed
from tests.helpers.small_datastores import saved_model
from tests.helpers.summaries import LENGTH, save_encoder, write_pairs

LONG = [*SMALL, "training.steps=20", "training.save_every=3", "training.evaluate_every=5", "training.keep_best=true"]

SHORT = [*SMALL, "training.steps=3", "training.log_every=1"]

SIZES = [one for one in SMALL if one.startswith("task.") and "start" not in one and "vocabulary" not in one]
ONE_STEP = [*SIZES, "training.steps=1"]

PHASES = [
    "training/run.json",  # a tokenizer is made
    "training/training.json",
    "training/checkpoint-3",  # being written
    "training/checkpoint-9/optimizer.pt",
    "training/checkpoint-20",
    "training/outcome.json",  # measured
    "../.out.tmp",  # the model is written
    "config.json",  # moved
]
"""What is there when a process is killed, in the order in which it comes."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text("\n".join(sentences(160)), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def trained(text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training, which tests must leave as it is."""
    folder = tmp_path_factory.mktemp("trained") / "out"
    train(configured(recipe_of(text, "cache"), SHORT), folder)
    return folder


def measured_again(folder: Path) -> float:
    """Nats per token of the test text under the saved model."""
    results = TrainingResults.load(folder / "record.json")
    task = data_task(configured(results.settings), has_encoder=False)
    opened = open_model(folder)
    return task.measures.evaluate(opened.model, opened.tokenizer).metrics["nll"].value


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Summaries and articles."""
    return str(write_pairs(tmp_path_factory.mktemp("pairs"), train=40))


@pytest.fixture(scope="module")
def auxiliary_recipe(pairs: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    """A conditioned model that copies from the summary, and the settings of its data."""
    encoder = save_encoder(tmp_path_factory.mktemp("encoder"))
    recipe = {"method": "softmax+ce/mle/bergpt:1", "model": "small", "data": pairs, "encoder": encoder}
    sizes = [f"task.length={LENGTH}", "task.prompt_tokens=7", "task.vocabulary=300", "task.prompted_share=0.3"]
    return recipe, [*(one for one in LONG if one.startswith(("task.start.", "training."))), *sizes]


def recipe_of(text: str, method: str) -> dict[str, Any]:
    return {"method": method, "model": "small", "data": text}


def expect_the_same(one: Path, two: Path) -> None:
    expected, found = saved_weights(one), saved_weights(two)
    assert expected.keys() == found.keys()
    assert not [name for name, value in expected.items() if not torch.equal(found[name], value)]
    records = [TrainingResults.load(folder / "record.json") for folder in (one, two)]
    assert records[0].curve == records[1].curve
    assert records[0].validation_curve == records[1].validation_curve
    assert records[0].best_step == records[1].best_step
    assert records[0].evaluation == records[1].evaluation


@pytest.mark.slow
def test_killed_in_every_phase_the_model_is_the_same(text: str, tmp_path: Path) -> None:
    recipe = recipe_of(text, "cache/histalign")
    assert train_killed(recipe, LONG, tmp_path / "whole" / "out", []) == []
    chance = random.Random(0)
    moments = [Moment(phase, chance.choice([0.0, 0.001])) for phase in PHASES]
    assert all(train_killed(recipe, LONG, tmp_path / "killed" / "out", moments))
    expect_the_same(tmp_path / "whole" / "out", tmp_path / "killed" / "out")
    assert not list((tmp_path / "killed").rglob("checkpoint-*"))
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == ["out"]
    assert nw.load(tmp_path / "killed" / "out").objective.config.objective == "histalign"


@pytest.mark.slow
def test_another_training_in_the_folder_is_refused_with_the_difference(trained: Path, text: str) -> None:
    before = sorted(trained.rglob("*"))
    with pytest.raises(ValueError, match='"mos:2" asked') as told:
        train(configured(recipe_of(text, "mos:2"), SHORT), trained)
    assert "choose another out" in str(told.value)
    assert sorted(trained.rglob("*")) == before


@pytest.mark.slow
def test_data_that_changed_while_a_training_stood_still_are_refused(text: str, tmp_path: Path) -> None:
    data = tmp_path / "text.txt"
    data.write_text(Path(text).read_text(encoding="utf-8"), encoding="utf-8")
    train(configured(recipe_of(str(data), "cache"), [*SHORT, "keep_checkpoints=true"]), tmp_path / "out")
    (tmp_path / "out" / "record.json").unlink()  # as if it was killed before its end
    data.write_text("\n".join(sentences(160, seed=1)), encoding="utf-8")
    with pytest.raises(ValueError, match=r"training \(files\.\S+"):
        train(configured(recipe_of(str(data), "cache"), [*SHORT, "keep_checkpoints=true"]), tmp_path / "out")


@pytest.mark.slow
def test_what_is_finished_is_left_alone(trained: Path, text: str) -> None:
    times = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    results = train(configured(recipe_of(text, "cache"), SHORT), trained)
    assert results == TrainingResults.load(trained / "record.json")
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == times


def test_the_folder_is_a_model_that_is_measured_and_checked(trained: Path) -> None:
    results = TrainingResults.load(trained / "record.json")
    assert results.passed
    assert results.steps == 3
    assert results.evaluation.metrics["perplexity"].low is not None
    card = (trained / "README.md").read_text(encoding="utf-8")
    assert f"{results.evaluation.metrics['perplexity'].value:.4g}" in card
    again = measured_again(trained)
    assert again == pytest.approx(results.evaluation.metrics["nll"].value, abs=1e-6)


def test_a_model_of_ours_goes_on_with_its_head(text: str, tmp_path: Path) -> None:
    before = train(configured(recipe_of(text, "mos:2"), SHORT), tmp_path / "first")
    more = ["training.steps=1", "training.learning_rate=1e-12", *(one for one in SHORT if one.startswith("task."))]
    recipe = {**recipe_of(text, "mos:2"), "model": str(tmp_path / "first")}
    after = train(configured(recipe, more), tmp_path / "second")
    assert after.evaluation.metrics["nll"].value == pytest.approx(before.evaluation.metrics["nll"].value, abs=1e-6)


def test_a_conditioned_model_has_its_encoder_and_tokenizer_with_it(
    auxiliary_recipe: tuple[dict[str, Any], list[str]], tmp_path: Path
) -> None:
    recipe, overrides = auxiliary_recipe
    results = train(configured(recipe, [*overrides, "training.steps=2"]), tmp_path / "out")
    assert "steering" in results.evaluation.metrics
    assert open_model(tmp_path / "out").auxiliary_tokenizer is not None


@pytest.mark.few(1)
@pytest.mark.parametrize(("model", "head"), [("small", "cache"), ("small-t5", "softmax+ce")])
def test_pairs_train_decoder_only_and_encoder_decoder_models(pairs: str, tmp_path: Path, model: str, head: str) -> None:
    fields = ["task.source_field=highlights", "task.target_field=article", "task.vocabulary=300"]
    sizes = (
        ["task.start.n_embd=16", "task.start.n_layer=1", "task.start.n_head=2"]
        if model == "small"
        else ["task.start.d_model=16", "task.start.num_heads=2", "task.generation.pairs=2"]
    )
    recipe = {"head": head, "model": model, "data": pairs}
    results = train(configured(recipe, [*fields, *sizes, "training.steps=2"]), tmp_path / "out")
    assert results.evaluation.metrics["nll"].unit == "nats per target token"
    loaded = nw.load(tmp_path / "out")
    assert loaded.config.is_encoder_decoder == (model == "small-t5")


def test_files_of_others_are_left_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ValueError, match="holds no training"):
        train(configured(recipe_of(text, "cache"), SHORT), tmp_path)
    with pytest.raises(ValueError, match=r"mine.txt is a file"):
        train(configured(recipe_of(text, "cache"), SHORT), tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_one_process_at_a_time(text: str, tmp_path: Path) -> None:
    with locked(tmp_path / "out", "nextword train x"), pytest.raises(ValueError, match="is in use by process"):
        train(configured(recipe_of(text, "cache"), SHORT), tmp_path / "out")


def test_a_loss_that_is_no_number_ends_in_one_line(text: str, tmp_path: Path) -> None:
    recipe = configured(recipe_of(text, "cache"), [*SHORT, "training.learning_rate=1e30", "training.save_every=1"])
    with pytest.raises(ValueError, match=r"training.learning_rate") as told:
        train(recipe, tmp_path / "out")
    assert "(checkpoint-1 is kept)" in str(told.value)
    assert not (tmp_path / "out" / "config.json").exists()


def test_weights_that_are_nan_are_named_and_not_the_learning_rate(text: str, tmp_path: Path) -> None:
    model = saved_model(tmp_path / "model")
    weights = load_file(model / "model.safetensors")
    name = next(name for name in weights if "wte" in name)
    save_file({**weights, name: weights[name] * float("nan")}, model / "model.safetensors", {"format": "pt"})
    recipe = configured({**recipe_of(text, "softmax"), "model": str(model)}, ONE_STEP)
    with pytest.raises(ValueError, match=rf"the weights {name} are not finite numbers") as told:
        train(recipe, tmp_path / "out")
    assert "learning_rate" not in str(told.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["head=mo"], "unknown head 'mo'"),
        (["objective=histalig"], "unknown objective 'histalig'"),
        (["objective=histalign"], "histalign"),
        (["training.step=3"], r"training.step: unknown key. Did you mean 'steps'\?"),
        (["training.learning_rates.hed=1e-3"], "learning_rates.hed"),
        (["task.window=4000", "task.block=4000"], "must have at least one window of 4000"),
        (
            ["training.evaluate_every=2", "task.block=600"],
            "task.block: the validation text must have at least",
        ),
        (["model=./nowhere"], "model: ./nowhere: no such folder"),
        (["training.trains=head"], "trains: must not be 'head' for a head without parameters"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_trained(
    text: str, tmp_path: Path, overrides: list[str], message: str
) -> None:
    recipe = {**recipe_of(text, "softmax"), "objective": "mle"}
    recipe = {"head": recipe.pop("method"), **recipe}
    with pytest.raises(ValueError, match=message):
        train(configured(recipe, [*SHORT, *overrides]), tmp_path / "out")
    assert not (tmp_path / "out" / "training" / "training.json").exists()


class Warned(Watcher):
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def warned(self, sentence: str) -> None:
        self.sentences.append(sentence)


@pytest.fixture(scope="module")
def plain(text: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of transformers with its tokenizer, as from the hub."""
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("plain")
    tokenizer = trained_tokenizer(Path(text).read_text(encoding="utf-8"), 280, None)
    sizes = {"vocab_size": len(tokenizer), "n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
    GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def trained_with(
    text: str, model: str, head: str, out: Path, overrides: list[str], watcher: Any = None
) -> TrainingSettings:
    """The settings with which a training was done."""
    train(configured({"head": head, "model": model, "data": text}, overrides), out, watcher)
    return TrainingIdentity.load(out / "training" / "training.json").settings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "overrides", "rates"),
    [
        ("softmax", [], {}),
        ("mos:2", [], {"head": 1e-4}),
        ("mos:2", ["training.lora.rank=2"], {"head": 1e-4, "backbone": 5e-4}),
        ("mos:2", ["training.trains=head"], {"head": 1e-4}),
        ("mos:2", ["training.learning_rates.head=1e-4"], {"head": 1e-4}),
    ],
)
def test_a_saved_model_is_fine_tuned(
    text: str, plain: str, tmp_path: Path, head: str, overrides: list[str], rates: dict[str, float]
) -> None:
    settings = trained_with(text, plain, head, tmp_path / "out", [*ONE_STEP, *overrides])
    assert (settings.learning_rate, settings.learning_rates, settings.warmup_ratio) == (5e-5, rates, 0.06)
    assert settings.batch_size == 8


@pytest.mark.slow
def test_a_head_that_was_trained_is_not_new(text: str, plain: str, tmp_path: Path) -> None:
    trained_with(text, plain, "mos:2", tmp_path / "first", ONE_STEP)
    further = trained_with(text, str(tmp_path / "first"), "mos:2", tmp_path / "same", ONE_STEP)
    other = trained_with(text, str(tmp_path / "first"), "mos:3", tmp_path / "other", ONE_STEP)
    assert (further.learning_rate, further.learning_rates) == (5e-5, {})
    assert (other.learning_rate, other.learning_rates) == (5e-5, {"head": 1e-4})


@pytest.mark.slow
def test_a_small_model_has_the_settings_of_its_size(text: str, tmp_path: Path) -> None:
    settings = trained_with(text, "small", "mos:2", tmp_path / "out", [*SMALL, "training.steps=1"])
    assert (settings.learning_rate, settings.learning_rates, settings.warmup_ratio) == (2e-3, {}, 0.0)


@pytest.mark.slow
def test_a_training_keeps_the_settings_that_it_was_begun_with(
    text: str, plain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    steps = [*SIZES, "training.steps=2", "training.save_every=1", "keep_checkpoints=true"]
    with monkeypatch.context() as earlier:  # as an earlier version had it
        old = {"batch_size": 8, "learning_rate": 5e-5, "warmup_ratio": 0.05}
        earlier.setattr(module, "training_settings", lambda config, task: merged(old, config.training, "training"))
        trained_with(text, plain, "mos:2", out, steps)
    (out / "record.json").unlink()  # as if it was killed before its end
    settings = trained_with(text, plain, "mos:2", out, steps)
    assert (settings.warmup_ratio, settings.learning_rates) == (0.05, {})
    assert (out / "record.json").exists()


def test_a_training_begun_before_states_were_normalised_resumes_without(
    text: str, plain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    steps = [*SIZES, "training.steps=2", "training.save_every=1", "keep_checkpoints=true"]
    with monkeypatch.context() as earlier:
        earlier.setattr(MultiInputConfig, "for_pretrained", lambda settings: settings)
        trained_with(text, plain, "softmax+mi:1x2", out, steps)
    identity = out / "training" / "training.json"
    assert "'mi': {'layers': 1, 'window': 2, 'expansion': 1}" in identity.read_text()  # as earlier versions wrote it
    (out / "record.json").unlink()  # as if it was killed before its end
    trained_with(text, plain, "softmax+mi:1x2", out, steps)
    assert not nw.load(out).next_word_head.inputs.normalize


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("overrides", "warned"),
    [
        (["training.learning_rate=2e-3"], True),
        (["training.learning_rate=1e-3"], False),
        (["training.learning_rates.head=0.05"], False),
        (["training.learning_rate=0.05", "training.trains=head"], False),
        (["training.learning_rates.output_embeddings=0.05"], True),
    ],
)
def test_a_rate_that_a_pretrained_model_does_not_bear_is_warned_about_once(
    text: str, plain: str, tmp_path: Path, overrides: list[str], warned: bool
) -> None:
    watcher = Warned()
    trained_with(text, plain, "mos:2", tmp_path / "out", [*ONE_STEP, *overrides], watcher)
    lines = [line for line in watcher.sentences if line.startswith("training.learning_rate: ")]
    assert len(lines) == warned
    assert all("give about 5e-05, and training.learning_rates.head=" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("softmax/unlikelihood+seq:4x8", []),
        ("f2/face", ["training.gradient_accumulation_steps=3"]),
        ("mos:2+mi:1x3/mle", ["training.lora.rank=2", "training.lora.dropout=0.1"]),
        ("cache/histalign", ["training.patience=2", "training.min_improvement=0.01", "training.scheduler=cosine"]),
        ("sigsoftmax/mle", ["training.dataloader_workers=1", "training.bf16=true"]),
        ("mos:2/mle", ["training.trains=head", "training.activation_checkpointing=true"]),
    ],
)
def test_killed_at_random_moments_the_model_is_the_same(
    text: str, tmp_path: Path, method: str, settings: list[str], seed: int
) -> None:
    recipe, overrides = recipe_of(text, method), [*LONG, *settings]
    expect_killed_to_be_the_same(recipe, overrides, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments_a_conditioned_model_is_the_same(
    auxiliary_recipe: tuple[dict[str, Any], list[str]], tmp_path: Path, seed: int
) -> None:
    recipe, overrides = auxiliary_recipe
    expect_killed_to_be_the_same(recipe, overrides, tmp_path, seed)


def expect_killed_to_be_the_same(recipe: dict[str, Any], overrides: list[str], tmp_path: Path, seed: int) -> None:
    train_killed(recipe, overrides, tmp_path / "whole", [])
    chance = random.Random(seed)
    phases = [Moment(chance.choice(PHASES[1:5]), chance.uniform(0, 0.2)) for _ in range(3)]
    moments = [*phases, *(Moment(seconds=chance.uniform(0.1, 1.5)) for _ in range(5))]
    train_killed(recipe, overrides, tmp_path / "killed", moments)
    expect_the_same(tmp_path / "whole", tmp_path / "killed")
