from __future__ import annotations

from pathlib import Path

import pytest
from transformers import PreTrainedModel

import nextword as nw
from nextword.checking.opened_subject import open_subject, tokenizer_of
from tests.helpers import text_tokenizers
from tests.helpers.families import tiny


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_model_not_ours_is_opened_as_it_was_saved(name: str, tmp_path: Path) -> None:
    model = tiny(name)
    model.save_pretrained(tmp_path)
    opened = open_subject(tmp_path)
    assert type(opened) is type(model)


def test_a_model_of_ours_has_its_head(tmp_path: Path) -> None:
    nw.attach(tiny("gpt2"), "cache").save_pretrained(tmp_path)
    opened = open_subject(str(tmp_path))
    assert opened.next_word_head.config.head == "cache"


def test_an_adapter_brings_its_model(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    tiny("gpt2").save_pretrained(tmp_path / "base")
    base = open_subject(tmp_path / "base")
    peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM")).save_pretrained(tmp_path / "adapter")
    opened = open_subject(tmp_path / "adapter")
    assert isinstance(opened, peft.PeftModel)
    assert isinstance(opened.get_base_model(), PreTrainedModel)


def test_what_is_no_language_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no config\.json in it"):
        open_subject(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(ValueError, match="language model"):
        open_subject(tmp_path)


@pytest.mark.parametrize("head", [None, "softmax"])
def test_a_path_is_checked_as_what_lies_there(head: str | None, tmp_path: Path) -> None:
    model = tiny("gpt2") if head is None else nw.attach(tiny("gpt2"), head)
    model.save_pretrained(tmp_path / "m")
    report = nw.check(str(tmp_path / "m"), lengths=[3])
    assert (report.passed, report.head) == (True, head or "")
    assert report.rows == nw.check(open_subject(tmp_path / "m"), lengths=[3]).rows
    assert "tokenizer" not in [row.name for row in report.rows]
    text_tokenizers.byte_level().save_pretrained(tmp_path / "m")
    assert nw.check(tmp_path / "m", lengths=[3]).rows[-1].name == "tokenizer"
    with pytest.raises(ValueError, match=r"nowhere:.*folder; give the path"):
        nw.check("./nowhere")


def test_a_tokenizer_that_cannot_be_read_is_warned_about(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("this is just text")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    with pytest.warns(UserWarning, match=r"cannot be read.*tokenizer\.json"):
        assert tokenizer_of(tmp_path) is None
