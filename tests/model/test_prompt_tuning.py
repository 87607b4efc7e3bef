"""Vectors that peft puts before a text: every head generates with them, and says so where it cannot read the words."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import nextword as nw
from tests.helpers.families import prompts, tiny

peft = pytest.importorskip("peft")

VIRTUAL = 4
READS_WORDS = {"softmax": False, "softmax+mi": False, "mos:2": False, "softmax+r:3": False}
READS_WORDS |= {"softmax+c": True, "cache": True, "pg": True, "softmax+cpr:3+mi": True, "copynet": True}


OTHER_DISTRIBUTION = {"cache", "pg", "copynet"}
"""From the start; the others begin with the backbone's own."""


def tuned(model: Any, kind: str) -> Any:
    config = getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=VIRTUAL)
    torch.manual_seed(0)
    return peft.get_peft_model(model, config).double().eval()


@pytest.mark.parametrize("head", READS_WORDS)
@torch.no_grad()
def test_prompt_tuning(head: str) -> None:
    """Of texts padded on the left the backbone's words come; a head that reads words says that it knows none."""
    bare = tuned(tiny("gpt2", torch.float64), "PromptTuningConfig")
    adapted = tuned(nw.attach(tiny("gpt2", torch.float64), head), "PromptTuningConfig")
    given = {**prompts(bare), "max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        written = adapted.generate(**given)
    assert any("reads tokens, and has none here" in str(one.message) for one in said) == READS_WORDS[head]
    if head in OTHER_DISTRIBUTION:
        assert written.shape[1] == given["input_ids"].shape[1] + 3
    else:
        assert torch.equal(written, bare.generate(**given))


@pytest.mark.parametrize("head", ["cache", "softmax+mi", "softmax+cpr:3"])
@torch.no_grad()
def test_prefix_tuning_leaves_the_words(head: str) -> None:
    """Its vectors lie in the KV cache, so a head still sees the text: generation is recomputation."""
    adapted = tuned(nw.attach(tiny("gpt2", torch.float64), head), "PrefixTuningConfig")
    ids = torch.tensor([[5, 6, 7, 5, 6]])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*reads tokens")
        out = adapted.generate(
            input_ids=ids, max_new_tokens=3, do_sample=False, output_logits=True, return_dict_in_generate=True
        )
        whole = adapted(input_ids=out.sequences).logits[:, 4:-1].float().log_softmax(-1)
    torch.testing.assert_close(torch.stack(out.logits, 1).log_softmax(-1), whole, rtol=0, atol=1e-5)
