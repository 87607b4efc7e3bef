"""Models are found, told apart, and their absence is explained."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

from nextword.evaluation.judges.checkpoints import find_checkpoint, load_part, token_limit
from tests.helpers.tiny_judges import SIZES, word_pieces


def test_importing_judges_loads_no_model_library() -> None:
    heavy = ["torch", "transformers", "sentence_transformers", "spacy", "mauve", "faiss", "pandas", "huggingface_hub"]
    code = f"import sys, nextword.evaluation.judges; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_fingerprint_follows_the_files_not_the_place(factcc_folder: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(factcc_folder, copy)
    original = find_checkpoint(factcc_folder, "x").fingerprint
    assert find_checkpoint(str(copy), "x").fingerprint == original
    (copy / "README.md").write_text("a remark")
    assert find_checkpoint(str(copy), "x").fingerprint == original
    config = (copy / "config.json").read_text()
    (copy / "config.json").write_text(config.replace("0.1", "0.2", 1))
    changed = find_checkpoint(str(copy), "x").fingerprint
    assert changed != original
    state = (copy / "model.safetensors").stat()
    os.utime(copy / "model.safetensors", ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert find_checkpoint(str(copy), "x").fingerprint not in (original, changed)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, r"factcc\.model: must be the folder or hub name of a model \(none given\)\. Use one"),
        (
            "models/of/mine",
            r"factcc\.model: must be a folder or the name of a model on the hub \('models/of/mine' is neither",
        ),
        (
            "nobody/no-such-model",
            r"factcc\.model: 'nobody/no-such-model' is not a folder .*hf download nobody/no-such-model",
        ),
    ],
)
def test_missing_model_says_what_to_do(name: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_checkpoint(name, "factcc.model", "Use one.")


def test_model_of_the_hub_is_the_commit_that_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub

    config = tmp_path / "snapshots" / "0123abc" / "config.json"
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda name, file: str(config))
    found = find_checkpoint("somebody/model", "x")
    assert (found.revision, found.fingerprint) == ("0123abc", "somebody/model@0123abc")
    assert load_part(lambda name, revision: (name, revision), found, "x") == ("somebody/model", "0123abc")


def test_model_that_was_downloaded_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: f"snapshots/4567def/{file}")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *given: pytest.fail("the hub was asked"))
    assert find_checkpoint("somebody/model", "x").revision == "4567def"


def test_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"mauve\.model: '.*' cannot be loaded: "):
        load_part(transformers.AutoModel.from_pretrained, find_checkpoint(str(tmp_path), "mauve.model"), "mauve.model")


def test_limits_of_models(tmp_path: Path) -> None:
    """RoBERTa's table of 20 positions has room for 20 - 1 - 1 tokens, and one token more is an error inside it."""
    size = word_pieces(tmp_path)
    tokenizer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=size, max_position_embeddings=20, **SIZES))
    assert token_limit(bert, tokenizer, 512) == 20
    assert token_limit(bert, tokenizer, 7) == 7
    tokenizer.model_max_length = 16
    assert token_limit(bert, tokenizer, 512) == 16
    tokenizer.model_max_length = int(1e30)
    config = transformers.RobertaConfig(vocab_size=size, max_position_embeddings=20, pad_token_id=1, **SIZES)
    roberta = transformers.RobertaModel(config).eval()
    assert token_limit(roberta, tokenizer, 512) == 18
    roberta(torch.full((1, 18), 5))
    with pytest.raises((IndexError, RuntimeError)):
        roberta(torch.full((1, 19), 5))
