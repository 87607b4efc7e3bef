"""Saved folders in a process that never imported nextword, in one where it is not installed, and after its import."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

import nextword as nw
from tests.helpers.conditioned_models import conditioned
from tests.helpers.families import inputs, tiny
from tests.helpers.word_tokenizer import word_tokenizer

NEVER_IMPORTED = "import sys, transformers as hf\nassert 'nextword' not in sys.modules\n"
NOT_INSTALLED = """
import sys
class Absent:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "nextword":
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Absent())
import transformers as hf
"""
# each interpreter takes seconds to import torch, so each is asked much


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    for name, model in {
        "causal": nw.attach(tiny("gpt2"), "mos:2+mi", "face"),
        "seq2seq": nw.attach(tiny("t5"), "softmax+e"),
        "conditioned": conditioned(tiny("gpt2"), "cache:published", "lmh", "histalign"),
    }.items():
        model.save_pretrained(folder / name)
        word_tokenizer().save_pretrained(folder / name)
    return folder


def run(script: str, saved: Path, failing: bool = False) -> tuple[list[str], str]:
    """What a script prints, and what it says beside that, in an interpreter of its own that asks nobody anything."""
    environment = {"HF_MODULES_CACHE": str(saved / "modules"), "HF_HUB_OFFLINE": "1"}
    script = script.replace("FOLDER", repr(str(saved) + "/"))
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", script],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=os.environ | environment,
    )  # fmt: skip
    assert bool(done.returncode) == failing, done.stderr
    return done.stdout.strip().splitlines(), done.stderr


@pytest.mark.slow
def test_a_process_that_never_imported_it(saved: Path) -> None:
    script = """
for kind, name, given in (
    ("CausalLM", "causal", {}), ("Seq2SeqLM", "seq2seq", {"decoder_input_ids": [[0]]}), ("CausalLM", "conditioned", {})
):
    path = FOLDER + name
    tokenizer = hf.AutoTokenizer.from_pretrained(path, trust_remote_code=True)
    tokens = tokenizer("w5 w7", return_tensors="pt", return_token_type_ids=False)
    model = getattr(hf, "AutoModelFor" + kind).from_pretrained(path, trust_remote_code=True)
    print(type(model).__module__, type(model).__name__, model.config.spec)
    print(type(hf.AutoConfig.from_pretrained(path, trust_remote_code=True)).__name__)
    if name != "conditioned":
        print(len(model.generate(**tokens, max_new_tokens=2, do_sample=False)))
model.save_pretrained(FOLDER + "again")
"""
    printed, _ = run(NEVER_IMPORTED + script, saved)
    assert printed == [
        "nextword.model.modeling NextWordForCausalLM mos:2+mi/face:opr", "NextWordConfig", "1",
        "nextword.model.modeling NextWordForSeq2SeqLM softmax+e/mle", "NextWordSeq2SeqConfig", "1",
        "nextword.model.modeling NextWordForCausalLM cache:published/histalign/lmh", "NextWordConfig",
    ]  # fmt: skip
    files = {file.name for file in (saved / "again").iterdir()}
    assert files >= {"config.json", "generation_config.json", "model.safetensors", "modeling_nextword.py", "README.md"}
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in files)
    assert {name for name in files if name.endswith(".py")} == {"modeling_nextword.py"}  # no copy of our code
    first, again = (json.loads((saved / name / "config.json").read_text()) for name in ("conditioned", "again"))
    assert [again[key] for key in ("spec", "auto_map", "head")] == [first[key] for key in ("spec", "auto_map", "head")]


@pytest.mark.slow
def test_pipelines_in_a_process_that_never_imported_it(saved: Path) -> None:
    script = """
write = hf.pipeline("text-generation", model=FOLDER + "causal", trust_remote_code=True)
print(type(write.model).__name__, len(write("w5 w7", max_new_tokens=3, do_sample=False)))
"""
    printed, _ = run(NEVER_IMPORTED + script, saved)
    assert printed == ["NextWordForCausalLM 1"]


@pytest.mark.slow
def test_the_server_of_transformers_loads_it(saved: Path) -> None:
    pytest.importorskip("transformers.cli.serving.model_manager", reason="an older transformers, or no fastapi")
    script = """
from transformers.cli.serving.model_manager import ModelManager
manager = ModelManager(trust_remote_code=True, force_model=FOLDER + "causal", device="cpu")
model, tokenizer = manager.load_model_and_processor(manager.process_model_name(FOLDER + "causal"))
print(type(model).__module__, type(model).__name__, type(tokenizer).__name__)
"""
    printed, _ = run(NEVER_IMPORTED + script, saved)
    assert printed[0].startswith("nextword.model.modeling NextWordForCausalLM ")


@pytest.mark.slow
def test_after_the_import_nothing_is_asked_or_warned_of(saved: Path) -> None:
    script = """
import nextword, warnings, transformers as hf
warnings.simplefilter("error", UserWarning)
greedy = hf.GenerationConfig(max_new_tokens=3, do_sample=False)  # single arguments make 5.18 warn with any model
for trust in ({}, {"trust_remote_code": False}, {"trust_remote_code": True}):
    print(type(hf.AutoModelForCausalLM.from_pretrained(FOLDER + "causal", **trust)).__name__)
    write = hf.pipeline("text-generation", model=FOLDER + "causal", **trust)
    print(type(write.model).__name__, len(write("w5 w7", generation_config=greedy)))
"""
    printed, said = run(script, saved)
    assert printed == ["NextWordForCausalLM", "NextWordForCausalLM 1"] * 3
    assert not [line for line in said.splitlines() if line.strip() and "it/s]" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("auto", ["AutoConfig", "AutoModelForCausalLM"])
def test_where_it_is_not_installed_the_error_says_what_to_install(auto: str, saved: Path) -> None:
    _, said = run(
        NOT_INSTALLED + f"hf.{auto}.from_pretrained(FOLDER + 'causal', trust_remote_code=True)", saved, failing=True
    )
    assert "pip install nextword" in said.strip().splitlines()[-1]


@pytest.mark.slow
def test_without_trust_it_says_how_to_give_it(saved: Path) -> None:
    _, said = run(NEVER_IMPORTED + "hf.AutoModelForCausalLM.from_pretrained(FOLDER + 'causal')", saved, failing=True)
    assert "trust_remote_code=True" in said.strip().splitlines()[-1]


def _stripped(folder: Path) -> Path:
    """As an earlier version saved it."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    del config["auto_map"], config["spec"]
    (folder / "config.json").write_text(json.dumps(config))
    for file in ("modeling_nextword.py", "README.md"):
        (folder / file).unlink()
    return folder


@pytest.mark.parametrize("family", ["gpt2", "t5"])
@torch.no_grad()
def test_folders_of_earlier_versions(family: str, tmp_path: Path) -> None:
    model = nw.attach(tiny(family), "mos:2").eval()
    model.save_pretrained(tmp_path)
    loaded = nw.load(_stripped(tmp_path)).eval()
    given = inputs(model)
    assert torch.equal(loaded(**given).logits, model(**given).logits)
    assert loaded.config.spec == "mos:2/mle"


def test_what_a_file_says_of_the_spec_is_not_read(tmp_path: Path) -> None:
    nw.attach(tiny("gpt2"), "mos:2").save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"spec": "mos:2/mle"', '"spec": "cache/face"'))
    loaded = nw.load(tmp_path)
    assert loaded.config.spec == "mos:2/mle"
    assert not {"spec", "auto_map"} & vars(loaded.config).keys()


def test_a_configuration_saved_alone_has_the_file_that_it_names(tmp_path: Path) -> None:
    nw.attach(tiny("gpt2"), "cache").config.save_pretrained(tmp_path)
    named = json.loads((tmp_path / "config.json").read_text())["auto_map"]["AutoConfig"]
    assert (tmp_path / f"{named.partition('.')[0]}.py").is_file()


SERVER = "import sys; sys.argv[0] = 'transformers'; from transformers.cli.transformers import main; main()"
"""``transformers`` as it is typed: it knows nothing of nextword."""


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--continuous-batching", "--cb-num-blocks", "16"]], ids=["alone", "batched"])
def test_the_server_of_transformers_answers(tmp_path: Path, options: list[str]) -> None:
    pytest.importorskip("transformers.cli.serve", reason="an older transformers, or no fastapi")
    from tests.helpers.running_server import small_model

    opened = small_model()
    opened.model.save_pretrained(tmp_path)
    opened.tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    opened.tokenizer.save_pretrained(tmp_path)
    opened.tokenizer.chat_template = None
    ids = opened.tokenizer("The king sat. The", return_tensors="pt").input_ids
    how = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    written = opened.model.generate(ids, attention_mask=torch.ones_like(ids), **how)[0, ids.shape[1] :]

    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = ["serve", str(tmp_path), "--trust-remote-code", "--device", "cpu", "--port", str(port), *options]
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as run:
        try:
            address = f"http://localhost:{port}"
            wait_for(address, run)
            asked = {
                "model": str(tmp_path), "messages": [{"role": "user", "content": "The king sat. The"}], "max_tokens": 8,
                "temperature": 0,
            }  # fmt: skip
            answer = httpx.post(f"{address}/v1/chat/completions", json=asked, timeout=120)
            assert answer.status_code == 200, answer.text
            found = answer.json()["choices"][0]["message"]["content"]
        finally:
            run.kill()
    assert found == opened.tokenizer.decode(written)


def wait_for(address: str, run: subprocess.Popen[bytes]) -> None:
    """Until the server answers."""
    deadline = time.monotonic() + 120
    while True:
        try:
            httpx.get(f"{address}/health").raise_for_status()
        except httpx.HTTPError:
            assert run.poll() is None, "the server has ended"
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return
