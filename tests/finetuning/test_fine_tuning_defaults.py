"""``nextword train`` on a saved model: the defaults of fine-tuning, what is new in it, and what was begun before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nextword.finetuning import train_model as module
from nextword.finetuning.train_config import configured
from nextword.finetuning.train_model import train
from nextword.finetuning.training_progress import SilentTrainingWatcher
from nextword.tasks.parts.bpe import trained_tokenizer
from nextword.training.resume import TrainingIdentity
from nextword.training.settings import TrainingSettings, merged
from tests.helpers.killed_trainings import SMALL, sentences

SIZES = [one for one in SMALL if one.startswith("data.") and "start" not in one and "vocabulary" not in one]
ONE_STEP = [*SIZES, "training.steps=1"]


class Warned(SilentTrainingWatcher):
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def warned(self, sentence: str) -> None:
        self.sentences.append(sentence)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text("\n".join(sentences(160)), encoding="utf-8")
    return str(path)


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


@pytest.mark.parametrize(
    ("head", "overrides", "rates"),
    [
        ("softmax", [], {}),
        ("mos:2", [], {"head": 1e-3}),
        ("mos:2", ["training.lora.rank=2"], {"head": 1e-3, "backbone": 5e-4}),
        ("mos:2", ["training.trains=head"], {"head": 1e-3}),
        ("mos:2", ["training.learning_rates.head=1e-4"], {"head": 1e-4}),
    ],
)
def test_a_saved_model_is_fine_tuned(
    text: str, plain: str, tmp_path: Path, head: str, overrides: list[str], rates: dict[str, float]
) -> None:
    settings = trained_with(text, plain, head, tmp_path / "out", [*ONE_STEP, *overrides])
    assert (settings.learning_rate, settings.learning_rates, settings.warmup_ratio) == (5e-5, rates, 0.06)
    assert settings.batch_size == 8


def test_a_head_that_was_trained_is_not_new(text: str, plain: str, tmp_path: Path) -> None:
    trained_with(text, plain, "mos:2", tmp_path / "first", ONE_STEP)
    further = trained_with(text, str(tmp_path / "first"), "mos:2", tmp_path / "same", ONE_STEP)
    other = trained_with(text, str(tmp_path / "first"), "mos:3", tmp_path / "other", ONE_STEP)
    assert (further.learning_rate, further.learning_rates) == (5e-5, {})
    assert (other.learning_rate, other.learning_rates) == (5e-5, {"head": 1e-3})


def test_a_small_model_has_the_settings_of_its_size(text: str, tmp_path: Path) -> None:
    settings = trained_with(text, "small", "mos:2", tmp_path / "out", [*SMALL, "training.steps=1"])
    assert (settings.learning_rate, settings.learning_rates, settings.warmup_ratio) == (2e-3, {}, 0.0)


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
