"""Heads against the numbers of the published system: values and gradients, float64."""

import pytest
import torch

from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context
from tests.oracles import golden

PARAMETERS = {
    "mi_mlp_W": "inputs.merge.weight",
    "mi_mlp_b": "inputs.merge.bias",
    "mos_gate_W": "gate.linear.weight",
    "mos_gate_b": "gate.linear.bias",
    "mos_static_logits": "gate.scores",
}

CASES = {
    "heads/gpt2_S": {"head": "softmax", "proj": True},
    "heads/gpt2_S_Mi": {"head": "softmax", "mi": {"layers": 3, "window": 3}},
    "heads/gpt2_S_sigsoftmax": {"head": "sigsoftmax"},
    "heads/gpt2_MoS": {"head": "mos", "components": 3},
    "heads/gpt2_MoS_static": {"head": "mos", "components": 3, "gate": "static"},
    "heads/t5_S": {"head": "softmax", "proj": True, "bias": False},
    "heads/t5_MoS": {"head": "mos", "components": 3, "bias": False},
}


def ours(name: str) -> str:
    """Our name of a published parameter, for a head of one projection or of several."""
    if name in PARAMETERS:
        return PARAMETERS[name]
    facet, kind = name.removeprefix("proj_S")[0], {"W": "weight", "b": "bias"}[name[-1]]
    return f"project.{facet}.{kind}"


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str) -> None:
    numbers = golden.load(case)
    spec = CASES[case] | ({"gate": numbers["settings"]["weight_mode"] or "uniform"} if case == "heads/t5_MoS" else {})
    head = build_head(spec, width=16, vocab_size=120)
    own = dict(head.named_parameters())
    single = "project.weight" in own
    used = {}
    for key, value in numbers.items():
        name = key.removeprefix("param_")
        if key.startswith("param_") and not name.startswith("unused"):
            mapped = ours(name).replace("project.0.", "project.") if single else ours(name)
            if mapped in own:  # a one-component mixture has a gate in the published system, and none here
                own[mapped].data.copy_(value)
                used[name] = own[mapped]
    assert set(used.values()) == set(own.values()), "a parameter of ours was left at its start"

    hidden = numbers["hidden_all"].clone().requires_grad_()
    scaled = hidden * 16**-0.5 if case.startswith("heads/t5") else hidden
    weight = numbers["out_emb"].clone().requires_grad_()
    ids = numbers.get("decoder_input_ids", numbers.get("input_ids"))
    layers = tuple(scaled[-1 - i] for i in range(3))
    context = decoder_context(head, scaled[-1], ids, LinearVocabulary(weight), layers=layers)
    log_probs = head(context).log_probs().unflatten(0, ids.shape)
    torch.testing.assert_close(log_probs, numbers["logprobs_f64"], rtol=0, atol=1e-6)

    if case.startswith("heads/t5"):
        targets, predicted = numbers["labels"], log_probs
    else:
        targets, predicted = numbers["labels"][:, 1:], log_probs[:, :-1]
    kept = targets != -100
    asked = predicted[kept].gather(1, targets[kept][:, None])
    # the published loss has 1e-8 inside the logarithm; ours has none, so its loss is computed here
    loss = -(asked.exp() + 1e-8).log().mean()
    torch.testing.assert_close(loss, numbers["loss_f64"], rtol=0, atol=1e-6)
    loss.backward()
    torch.testing.assert_close(hidden.grad, numbers["grad_hidden_all"], rtol=0, atol=1e-6)
    torch.testing.assert_close(weight.grad, numbers["grad_out_emb"], rtol=0, atol=1e-6)
    for name, parameter in used.items():
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        torch.testing.assert_close(gradient, numbers[f"grad_{name}"], rtol=0, atol=1e-6)
