"""After ``import nextword`` saved models load through transformers alone, in a new interpreter and either order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nextword as nw
from nextword.model import registration
from tests.helpers.families import tiny
from tests.helpers.word_tokenizer import word_tokenizer

ORDERS = {
    "nextword first": "import nextword\nimport transformers as hf\n",
    "transformers first": "import transformers as hf\nfrom transformers import AutoModelForCausalLM\nimport nextword\n",
}
# each interpreter takes seconds to import torch, so each is asked much


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    for name, family, head in (("causal", "gpt2", "mos:2+mi"), ("seq2seq", "t5", "softmax+e")):
        nw.attach(tiny(family), head, "face").save_pretrained(folder / name)
        word_tokenizer().save_pretrained(folder / name)
    return folder


def run(script: str) -> str:
    """What a script prints in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_auto_classes_and_pipelines(order: str, saved: Path) -> None:
    script = f"""
import sys
print([name for name in sys.modules if name in ("nextword.model.modeling", "nextword.heads")])
for kind, name, given in (("CausalLM", "causal", {{}}), ("Seq2SeqLM", "seq2seq", {{"decoder_input_ids": [[0]]}})):
    folder = {str(saved)!r} + "/" + name
    model = getattr(hf, "AutoModelFor" + kind).from_pretrained(folder)
    print(type(model).__name__, model.next_word_head.config.head)
    tokens = hf.AutoTokenizer.from_pretrained(folder)("w5 w7", return_tensors="pt", return_token_type_ids=False)
    print(tokens.input_ids.tolist())
    print(model.generate(**tokens, max_new_tokens=2, do_sample=False).shape[0])
write = hf.pipeline("text-generation", model={str(saved / "causal")!r})
print(type(write.model).__name__, len(write("w5 w7", max_new_tokens=3, do_sample=False)))
"""
    assert run(ORDERS[order] + script).splitlines() == [
        "[]",  # where transformers is there, `import nextword` still loads little
        "NextWordForCausalLM mos", "[[5, 7]]", "1",
        "NextWordForSeq2SeqLM softmax", "[[5, 7]]", "1",
        "NextWordForCausalLM 1",
    ]  # fmt: skip


FIRST = {
    "a name": "print(type(hf.AutoConfig.for_model('nextword_seq2seq_lm', head='mos:2')).__name__)",
    "our class": "print(nextword.NextWordSeq2SeqConfig.__name__)",
}


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRST)
def test_a_configuration_is_what_is_asked_for_first(first: str) -> None:
    assert run(ORDERS["nextword first"] + FIRST[first]) == "NextWordSeq2SeqConfig"


def test_registering_twice_is_registering_once() -> None:
    before = list(sys.meta_path)
    registration.register()
    assert sys.meta_path == before
