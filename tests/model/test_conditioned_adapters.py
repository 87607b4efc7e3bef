"""LoRA on the backbone of a conditioned model, through peft itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.heads.head import Head
from tests.helpers.conditioned_models import conditioned, texts, with_words
from tests.helpers.families import inputs, labels, prompts, tiny

AUX = with_words(texts((7, 3, 5)))


@pytest.fixture(autouse=True)
def peft() -> Any:
    found = pytest.importorskip("peft")
    Head.register(found.utils.ModulesToSaveWrapper)  # it stands for what it wraps; the tests check types strictly
    return found


def aux_of(head: str) -> dict[str, torch.Tensor]:
    return {name: value for name, value in AUX.items() if name.startswith("aux") or head == "softmax+ce"}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("conditioner", "head"), [("lmh", "softmax"), ("dau", "mos:2"), ("bergpt", "softmax+ce"), ("prefix", "cache")]
)
def test_adapted_model_trains_generates_and_comes_back(peft: Any, conditioner: str, head: str, tmp_path: Path) -> None:
    model = conditioned(tiny("gpt2"), head, conditioner)
    model.save_pretrained(tmp_path / "base")
    saved = ["conditioner", "next_word_head", *(["lm_head"] if model.conditioner.config.unties else [])]
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], modules_to_save=saved, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(model, config)
    trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert all("lora_" in name or "modules_to_save" in name for name in trained)
    assert any(".conditioner." in name for name in trained)
    assert not any("auxiliary_encoder" in name for name in trained)
    given, aux = inputs(tiny("gpt2")), aux_of(head)
    before = adapted.eval()(**given, **aux).logits
    adapted.train()
    optimiser = torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        adapted(**given, **aux, labels=labels(given)).loss.backward()
        moved = [name for name, p in adapted.named_parameters() if p.grad is not None and p.grad.any()]
        optimiser.step()
    assert any("lora_B" in name for name in moved)
    assert any(".conditioner.modules_to_save" in name for name in moved)
    assert ("lm_head" in saved) == any("lm_head.modules_to_save" in name for name in moved)
    adapted.eval()
    with torch.no_grad():
        after = adapted(**given, **aux).logits
        assert (after - before).abs().max() > 1e-3
        written = adapted.generate(**prompts(tiny("gpt2")), **aux, max_new_tokens=4, num_beams=2)
        adapted.save_pretrained(tmp_path / "adapter")
        loaded = peft.PeftModel.from_pretrained(nw.load(tmp_path / "base"), tmp_path / "adapter").eval()
        assert torch.equal(loaded(**given, **aux).logits, after)
        assert torch.equal(loaded.generate(**prompts(tiny("gpt2")), **aux, max_new_tokens=4, num_beams=2), written)
        merged = loaded.merge_and_unload()
        assert type(merged) is nw.NextWordForCausalLM
        torch.testing.assert_close(merged(**given, **aux).logits, after, rtol=0, atol=1e-4)
        merged.save_pretrained(tmp_path / "merged")
        assert torch.equal(nw.load(tmp_path / "merged")(**given, **aux).logits, merged(**given, **aux).logits)
