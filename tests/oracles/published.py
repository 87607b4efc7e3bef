"""A golden file of heads/ as tensors with gradients, and what the published system makes of log-probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.oracles import golden
from tests.oracles.textbook import heads, partitions, pointers

EPSILON = 1e-8
"""Inside the logarithm of the published loss; ours has none."""
IGNORED = -100


class Published:
    """The numbers of one golden file.

    Args:
        name: Such as ``gpt2_CP``.
    """

    def __init__(self, name: str) -> None:
        self.data = golden.load(f"heads/{name}")
        self.settings = self.data["settings"]
        self.is_t5 = self.settings["arch"] == "t5"
        wanted = ("hidden_all", "out_emb", "encoder_hidden")
        self.leaves: dict[str, Tensor] = {
            key: value.clone().requires_grad_()
            for key, value in self.data.items()
            if key in wanted or key.startswith("param_")
        }
        """What the published gradients are taken of: states, output embedding, parameters."""
        self.ids: Tensor = self.data["decoder_input_ids" if self.is_t5 else "input_ids"]
        self.weight = self.leaves["out_emb"]
        self.log_probs: Tensor = self.data["logprobs_f64"]

    @property
    def layers(self) -> tuple[Tensor, ...]:
        """Hidden states as the head reads them, the last layer first; T5 scales them for its tied embeddings."""
        hidden = self.leaves["hidden_all"]
        return tuple((hidden * hidden.shape[-1] ** -0.5 if self.is_t5 else hidden).flip(0)[:3])

    @property
    def targets(self) -> Tensor:
        """The label that each position predicts, -100 where there is none."""
        labels: Tensor = self.data["labels"]
        return labels if self.is_t5 else torch.nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED)

    def loss(self, log_probs: Tensor) -> Tensor:
        """``mean -log(P(y) + 1e-8)`` over positions with a target."""
        kept = self.targets != IGNORED
        right = log_probs[kept].exp().gather(-1, self.targets[kept][:, None])
        return -(right + EPSILON).log().mean()

    def map(self, name: str) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the published projection of this name."""
        return self.leaves[f"param_{name}_W"], self.leaves.get(f"param_{name}_b")

    def text(self) -> partitions.Text:
        """What the decoder has read."""
        inputs = self.layers[0]
        if "param_mi_mlp_W" in self.leaves:
            weight, bias = self.leaves["param_mi_mlp_W"], self.leaves["param_mi_mlp_b"]
            inputs = heads.multi_input(self.layers, weight, bias, 3)
        return partitions.Text(inputs, self.ids)

    def source(self, padding_counts: bool) -> partitions.Source | None:
        """What the encoder has read; published heads take its padding for words."""
        if not self.is_t5:
            return None
        mask = None if padding_counts else self.data["encoder_mask"].bool()
        return partitions.Source(self.leaves["encoder_hidden"], self.data["encoder_ids"], mask)

    def gradient(self, name: str) -> Tensor:
        """The published gradient of one of :attr:`leaves`."""
        wanted = self.data.get("grad_" + name.removeprefix("param_"))
        return torch.zeros_like(self.leaves[name]) if wanted is None else wanted


def partitions_of(published: Published) -> partitions.Partitions:
    """The published projections under the names of the textbook form."""
    known = [key.removeprefix("param_")[:-2] for key in published.leaves if key.endswith("_W")]

    def of(*names: str) -> partitions.Map | None:
        return next((published.map(f"proj_{name}") for name in names if f"proj_{name}" in known), None)

    def pair(query: str, key: str) -> tuple[partitions.Map, partitions.Map] | None:
        found = of(query), of(key)
        return (found[0], found[1]) if found[0] is not None and found[1] is not None else None

    steps = [name for name in known if name.startswith("proj_R0_step")]
    base = of("S0")
    assert base is not None
    return partitions.Partitions(
        base,
        {int(name.rsplit("_k", 1)[1]): published.map(name) for name in steps},
        context=of("C0", "D0"),
        encoder=of("E0"),
        local=pair("PD_query", "LD_localemb"),
        source_local=pair("PE0_query", "LE0_localemb"),
        mode=published.settings["context_efficient_mode"].split("_")[0],
    )


def pointer_form(published: Published, padding_counts: bool = False) -> Tensor:
    """Log-probabilities of the textbook form that the settings name, (B, T, V)."""
    parts, text, source = partitions_of(published), published.text(), published.source(padding_counts)
    local = parts.source_local if source is not None else parts.local
    assert local is not None
    positions = pointers.past(text, local[1]) if source is None else pointers.source(text, source, local[1])
    queries = heads.project(text.inputs, *local[0])
    logits = heads.scores(heads.project(text.inputs, *parts.base), published.weight)
    mode = published.settings["pointer_mode"]
    if mode in ("CopyNet", "cache"):
        bias = published.leaves.get("param_init_neg_bias", torch.zeros(()))  # published: used by T5 alone
        scores = pointers.product_scores(queries, positions, tanh=mode == "CopyNet") + bias
        return pointers.log_copynet(logits, scores, positions)
    gate = heads.project(published.layers[0], *published.map("ptr_gate"))[..., 0]
    if mode == "Pointer_Sentinel":
        return pointers.log_pointer_sentinel(logits, pointers.product_scores(queries, positions), gate, positions)
    assert mode == "Pointer"
    vector, bias = published.leaves["param_att_v"], published.leaves["param_att_bias"]
    return pointers.log_pointer_generator(
        logits, pointers.additive_scores(queries, positions, vector, bias), gate, positions
    )
