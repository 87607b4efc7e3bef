"""Every way to save a model gives the same folder, whole or not at all, and nothing of the user's is overwritten."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from transformers.utils import hub

import nextword as nw
from nextword.inference.scoring.opened_model import open_model
from nextword.model import saving
from nextword.model.card import CardFacts
from nextword.model.saving import save_model_folder
from tests.helpers.conditioned_models import conditioned, texts
from tests.helpers.families import inputs, labels, tiny
from tests.helpers.word_tokenizer import word_tokenizer

OURS = {"config.json", "generation_config.json", "model.safetensors", "modeling_nextword.py", "README.md"}
GIVEN = inputs(tiny("gpt2"))


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def same(first: Any, second: Any) -> bool:
    with torch.no_grad():
        return torch.equal(first.eval()(**GIVEN).logits, second.eval()(**GIVEN).logits)


@pytest.mark.parametrize("family", ["gpt2", "t5", "llama"])
def test_save_pretrained_writes_all_of_it(family: str, tmp_path: Path) -> None:
    model = nw.attach(tiny(family), "softmax+mi")
    before = copy.deepcopy(vars(model.config)), copy.deepcopy(vars(model.backbone.config))
    model.save_pretrained(tmp_path)
    assert files(tmp_path) == OURS
    assert ModelCard.load(tmp_path / "README.md").data.library_name == "transformers"
    for config, earlier in zip((model.config, model.backbone.config), before, strict=True):
        for name in ("auto_map", "spec"):
            assert name not in vars(config)
        assert vars(config).keys() - {"architectures"} == earlier.keys() - {"architectures"}


def test_trainer_saves_the_same_folder(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="Trainer needs it")
    model = nw.attach(tiny("gpt2"), "mos:2")
    rows = [{"input_ids": row, "labels": row} for row in GIVEN["input_ids"]]
    settings = {"max_steps": 1, "save_steps": 1, "report_to": [], "use_cpu": True, "disable_tqdm": True}
    trainer = Trainer(model, TrainingArguments(str(tmp_path / "run"), **settings), train_dataset=rows)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    for folder in (tmp_path / "saved", tmp_path / "run" / "checkpoint-1"):
        assert files(folder) >= OURS
        assert same(AutoModelForCausalLM.from_pretrained(folder), model)


@pytest.mark.parametrize("head", ["mos:2+mi", "cache"])
def test_adapters_lie_on_a_saved_folder(head: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    save_model_folder(nw.attach(tiny("gpt2"), head), word_tokenizer(), tmp_path / "base", CardFacts())
    settings = peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(nw.load(tmp_path / "base"), settings)
    optimiser = torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], lr=0.5)
    for _ in range(2):
        adapted(**GIVEN, labels=labels(GIVEN)).loss.backward()
        optimiser.step()
    adapted.save_pretrained(tmp_path / "adapter")
    assert not same(adapted, nw.load(tmp_path / "base"))
    assert same(adapted, peft.PeftModel.from_pretrained(nw.load(tmp_path / "base"), tmp_path / "adapter"))
    assert same(adapted, peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter"))
    merged = adapted.merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    assert files(tmp_path / "merged") >= OURS
    assert same(merged, nw.load(tmp_path / "merged"))


def test_an_adapter_of_transformers_own_gets_no_card_of_a_model(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    nw.attach(tiny("gpt2"), "cache").save_pretrained(tmp_path / "base")
    model = nw.load(tmp_path / "base")
    model.add_adapter(peft.LoraConfig(r=2, target_modules=["c_attn"]))
    model.save_pretrained(tmp_path / "adapter")
    assert not files(tmp_path / "adapter") & {"README.md", "config.json", "modeling_nextword.py"}


def test_what_is_pushed_has_the_file_that_leads_to_us(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[set[str]] = []

    class Api:
        def create_repo(self, repo_id: str, **_: Any) -> Any:
            return type("Repo", (), {"repo_id": repo_id})

    monkeypatch.setattr(hub, "hf_api", Api)
    monkeypatch.setattr(hub, "create_and_tag_model_card", lambda *_, **__: ModelCard("---\n---\n"))
    model = nw.attach(tiny("gpt2"), "cache")
    monkeypatch.setattr(
        type(model), "_upload_modified_files", lambda self, folder, *_, **__: pushed.append(files(Path(folder)))
    )
    model.push_to_hub("somebody/model")
    assert pushed == [OURS]


def test_a_card_of_the_user_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    nw.attach(tiny("gpt2"), "cache").save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_only_the_main_process_writes_a_card(tmp_path: Path) -> None:
    nw.attach(tiny("gpt2"), "cache").save_pretrained(tmp_path, is_main_process=False)
    assert not files(tmp_path) & {"README.md", "config.json"}


def test_a_folder_with_everything_opens_again(tmp_path: Path) -> None:
    model = conditioned(tiny("gpt2"), "cache", "lmh").eval()
    path = tmp_path / "deep" / "model"
    (path.parent / ".model.tmp").mkdir(parents=True)  # of a save that was killed
    (path.parent / ".model.tmp" / "model-00001-of-00002.safetensors").touch()
    save_model_folder(model, word_tokenizer(), path, CardFacts(title="mine"), word_tokenizer())
    assert files(path) >= OURS | {"tokenizer.json", "encoder_tokenizer/tokenizer.json"}
    assert not [name for name in files(path) if "-of-" in name]
    assert ModelCard.load(path / "README.md").content.count("# mine") == 1
    opened = open_model(path, device="cpu")
    assert opened.auxiliary_tokenizer is not None
    given = GIVEN | texts(tuple([5] * len(GIVEN["input_ids"])))
    with torch.no_grad():
        assert torch.equal(opened.model(**given).logits, model(**given).logits)
    assert [file.name for file in path.parent.iterdir()] == ["model"]  # nothing is left beside it


def test_a_model_in_other_pieces_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    first, second = nw.attach(tiny("gpt2"), "mos:2"), nw.attach(tiny("gpt2"), "mos:3")
    (tmp_path / "losses.json").write_text("{}")
    first.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    save_model_folder(second, word_tokenizer(), tmp_path, CardFacts())
    assert not [name for name in files(tmp_path) if "-of-" in name or "index" in name]
    assert (tmp_path / "losses.json").read_text() == "{}"
    assert same(nw.load(tmp_path), second)


@pytest.mark.few(4)
@pytest.mark.parametrize("stop", range(1, 7))
def test_a_save_that_stops_anywhere_leaves_no_folder_that_loads_as_another(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = nw.attach(tiny("gpt2"), "mos:2"), nw.attach(tiny("gpt2"), "mos:2")
    save_model_folder(old, word_tokenizer(), tmp_path / "model", CardFacts())
    calls = 0

    def stops(source: Any, target: Any, *, replace: Any = os.replace) -> None:
        nonlocal calls
        if Path(target).parent == tmp_path / "model":
            calls += 1
            if calls == stop:
                raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(saving.os, "replace", stops)
    with pytest.raises(KeyboardInterrupt):
        save_model_folder(new, word_tokenizer(), tmp_path / "model", CardFacts())
    with pytest.raises(ValueError, match=r"config\.json"):
        nw.load(tmp_path / "model")
    monkeypatch.undo()
    save_model_folder(new, word_tokenizer(), tmp_path / "model", CardFacts())
    assert same(nw.load(tmp_path / "model"), new)


KILLED = """
import sys
import nextword as nw
from nextword.model.saving import save_model_folder
from nextword.model.card import CardFacts
from tests.helpers.families import tiny
from tests.helpers.word_tokenizer import word_tokenizer
model, tokenizer = nw.attach(tiny("gpt2"), "mos:2"), word_tokenizer()
print("ready", flush=True)
while True:
    save_model_folder(model, tokenizer, sys.argv[1], CardFacts())
"""


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.0, 0.02, 0.05, 0.1, 0.17, 0.3])
def test_a_killed_save_leaves_a_whole_model_or_none(wait: float, tmp_path: Path) -> None:
    path = tmp_path / "model"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if (path / "config.json").exists():
        assert nw.load(path).config.spec == "mos:2/mle"
    else:
        with pytest.raises(ValueError, match=r"config\.json|no such folder"):
            nw.load(path)
