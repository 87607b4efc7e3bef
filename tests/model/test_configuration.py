"""Configurations of other versions: one line that says what cannot be read here, and which version can."""

from __future__ import annotations

import json

import pytest
from transformers import GPT2Config, GPT2LMHeadModel
from typer.testing import CliRunner

import nextword as nw
from nextword.cli import app
from tests.helpers.word_models import word_tokenizer

OTHER = {"nextword_version": "99.1", "transformers_version": "98.2"}
FAULTS = [
    ({"head": {"head": "cache", "foresight": 2}}, "head.foresight: unknown key", "nextword 99.1"),
    ({"head": {"head": "oracle"}}, "'oracle'", "nextword 99.1"),
    ({"objective": {"objective": "seer"}}, "'seer'", "nextword 99.1"),
    ({"text_config": {"model_type": "gpt99"}}, "transformers has no model 'gpt99'", "transformers 98.2"),
]


@pytest.fixture
def folder(tmp_path):
    model = GPT2LMHeadModel(GPT2Config(vocab_size=48, n_positions=16, n_embd=8, n_layer=1, n_head=2))
    nw.attach(model, "cache").save_pretrained(tmp_path / "model")
    word_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def change(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_the_folder_names_its_version_and_a_later_one_without_news_is_read(folder):
    assert json.loads((folder / "config.json").read_text())["nextword_version"] == nw.__version__
    change(folder, **OTHER)
    model = nw.load(folder)
    assert not hasattr(model.config, "nextword_version")
    model.save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["nextword_version"] == nw.__version__


@pytest.mark.parametrize(("changes", "fault", "version"), FAULTS)
def test_what_another_version_wrote(folder, changes, fault, version):
    change(folder, **changes, **OTHER)
    with pytest.raises(ValueError, match=f"saved with {version}, ") as raised:
        nw.load(folder)
    assert str(raised.value).startswith(f"{folder}: ")
    assert fault in str(raised.value)
    assert "\n" not in str(raised.value)
    pytest.importorskip("uvicorn", reason="nextword serve needs it")
    done = CliRunner().invoke(app, ["serve", str(folder)], env={"COLUMNS": "400", "NEXTWORD_DEBUG": "0"})
    assert done.exit_code == 2
    on_the_command_line = str(raised.value).replace("`import MODULE`", "`--import MODULE` before the command")
    assert done.output.strip() == f"error: {on_the_command_line}"


def test_a_mistake_of_this_version_is_not_put_on_another(folder):
    change(folder, head={"head": "cache", "foresight": 2})
    with pytest.raises(ValueError, match="foresight: unknown key") as raised:
        nw.load(folder)
    assert "saved with" not in str(raised.value)
