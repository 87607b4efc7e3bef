"""The textbook forms against the numbers of the published systems, and against sums worked out by hand."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.oracles import golden
from tests.oracles.published import Published
from tests.oracles.textbook import heads, memory, objectives

EXACT = {"rtol": 1e-9, "atol": 1e-11}
GPT2_HEADS = ["gpt2_S", "gpt2_S_Mi", "gpt2_S_sigsoftmax", "gpt2_MoS", "gpt2_MoS_static"]
T5_HEADS = ["t5_S", "t5_MoS"]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def published_head(published: Published) -> Tensor:
    """Log-probabilities of a golden file of heads/, put together from the textbook forms as its settings say."""
    settings, leaf = published.settings, published.leaves
    inputs, count = published.text().inputs, settings["n_facet"]
    maps = [published.map(f"proj_S{i}") for i in range(count)]
    if settings["softmax_nonlinear"] == "sigsoftmax":
        assert count == 1
        return heads.log_sigsoftmax(heads.scores(heads.project(inputs, *maps[0]), published.weight))
    if settings["weight_mode"] == "dynamic":
        gate = heads.dynamic_gate(inputs, *published.map("mos_gate"))
    elif settings["weight_mode"] == "static":
        gate = heads.static_gate(leaf["param_mos_static_logits"], inputs.shape[:-1])
    else:
        gate = heads.uniform_gate(count, inputs)
    return heads.log_mixture_of_softmaxes(inputs, maps, published.weight, gate)


@pytest.mark.parametrize("name", GPT2_HEADS + T5_HEADS)
def test_heads_match_the_published_values(name: str) -> None:
    published = Published(name)
    log_probs = published_head(published)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones_like(log_probs[..., 0]), **EXACT)
    # sigsoftmax: published with 1e-20 beside the sigmoid
    torch.testing.assert_close(log_probs, published.log_probs, **EXACT)
    torch.testing.assert_close(log_probs, published.data["logprobs"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(published.loss(log_probs), published.data["loss_f64"], **EXACT)
    # without the epsilon the loss can only be larger, and here hardly is
    ours = objectives.mle(log_probs, published.targets)
    assert 0 <= ours - published.data["loss_f64"] < 1e-2


@pytest.mark.parametrize("name", GPT2_HEADS + T5_HEADS)
def test_heads_match_the_published_gradients(name: str) -> None:
    published = Published(name)
    published.loss(published_head(published)).backward()
    compared = 0
    for key, tensor in published.leaves.items():
        wanted = published.gradient(key)
        found = torch.zeros_like(wanted) if tensor.grad is None else tensor.grad
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-11, msg=lambda text, key=key: f"{key}: {text}")
        compared += bool(wanted.abs().max() > 1e-6)
    assert compared >= 3  # the states, the embedding and a projection at least


@pytest.mark.parametrize("name", GPT2_HEADS)
def test_scores_of_each_projection_match(name: str) -> None:
    published = Published(name)
    for i in range(published.settings["n_facet"]):
        query = heads.project(published.text().inputs, *published.map(f"proj_S{i}"))
        scores = heads.scores(query, published.weight)
        torch.testing.assert_close(scores, published.data["final_logits_per_facet"][i], rtol=1e-4, atol=1e-4)


class HistAlign:
    """A HistAlign golden file with its scores, memory and targets; ``first`` and ``second`` are its states."""

    def __init__(self, name: str) -> None:
        self.data = golden.load(f"objectives/{name}")
        self.decoder_only = "hidden" in self.data
        keys = ["hidden"] if self.decoder_only else ["dec_hidden", "enc_hidden"]
        self.states = [self.data[key].clone().requires_grad_() for key in keys]
        self.out = self.data["emb_out"].clone().requires_grad_()
        self.scores = heads.scores(self.states[0], self.out)
        ids, labels = self.data["input_ids"], self.data["labels"]
        if self.decoder_only:
            self.embedding = self.data["emb_in"]
            self.targets = objectives.shifted(labels)
            self.memory = memory.decoder_memory(self.states[0], ids)
        else:
            self.embedding = self.data["emb_shared"]
            self.targets = labels
            self.scores = heads.add_bias(self.scores, self.data["final_logits_bias"][0])
            self.memory = memory.source_memory(*self.states, ids, ids != self.data["pad_id"])

    def ranking(self) -> Tensor:
        reduction = "offset_mean" if self.decoder_only else "offset_sum"
        margin = float(self.data["margin"])
        return objectives.ranking(self.memory, self.targets, self.embedding, margin, reduction, "all")

    def check_gradients(self, loss: Tensor, prefix: str) -> None:
        names = [f"{prefix}_grad_{part}" for part in (["hidden"] if self.decoder_only else ["dec", "enc"])]
        found = torch.autograd.grad(loss, [*self.states, self.out], allow_unused=True, retain_graph=True)
        for name, gradient in zip([*names, f"{prefix}_grad_lm_head"], found, strict=True):
            if name in self.data:
                assert gradient is not None
                assert self.data[name].abs().max() > 1e-6
                torch.testing.assert_close(gradient, self.data[name], **EXACT)


HISTALIGN = ["histalign_gpt2_lm", "histalign_bart"]


@pytest.mark.parametrize("name", HISTALIGN)
def test_cache_distributions_match(name: str) -> None:
    case = HistAlign(name)
    lm = heads.log_softmax(case.scores)
    joint = memory.log_joint(case.scores, case.memory)
    torch.testing.assert_close(lm, case.data["logp_lm"], **EXACT)
    torch.testing.assert_close(joint, case.data["logp_full"], **EXACT)
    for row in (lm, joint, memory.log_linear(case.scores, case.memory, 0.3)):
        torch.testing.assert_close(row.exp().sum(-1), torch.ones_like(row[..., 0]), **EXACT)

    cache, wanted = memory.log_cache_only(case.scores, case.memory), case.data["logp_cache"]
    stored = case.memory.visible.any(-1)
    assert bool(stored.all()) == (not case.decoder_only)  # a decoder's first position sees nothing
    wanted = torch.where(wanted < -9000, -torch.inf, wanted)
    torch.testing.assert_close(cache[stored], wanted[stored], **EXACT)
    assert (wanted[~stored] == -torch.inf).all()  # published: no probability at all
    torch.testing.assert_close(cache[~stored], lm[~stored])  # ours, by definition
    torch.testing.assert_close(cache.exp().sum(-1), torch.ones_like(cache[..., 0]), **EXACT)


@pytest.mark.parametrize("name", HISTALIGN)
def test_token_losses_match(name: str) -> None:
    case = HistAlign(name)
    torch.testing.assert_close(
        objectives.trime(case.scores, case.memory, case.targets), case.data["trime_loss"], **EXACT
    )
    if case.decoder_only:
        ce = objectives.mle(heads.log_softmax(case.scores), case.targets)
        torch.testing.assert_close(ce, case.data["ce_loss"], **EXACT)
    case.check_gradients(objectives.trime(case.scores, case.memory, case.targets), "trime")
    of_joint = objectives.mle(memory.log_joint(case.scores, case.memory), case.targets)
    torch.testing.assert_close(of_joint, case.data["trime_loss"], **EXACT)
    case.check_gradients(of_joint, "trime")


@pytest.mark.parametrize("name", HISTALIGN)
def test_ranking_matches(name: str) -> None:
    case = HistAlign(name)
    rank = case.ranking()
    torch.testing.assert_close(rank, case.data["hist_term_rank"], **EXACT)
    case.check_gradients(rank, "hist_rank")
    token_loss = objectives.trime(case.scores, case.memory, case.targets)
    torch.testing.assert_close(token_loss, case.data["hist_term_trime"], **EXACT)
    loss = objectives.histalign(token_loss, rank, float(case.data["alpha"]))
    torch.testing.assert_close(loss, case.data["hist_loss"], **EXACT)
    case.check_gradients(loss, "hist")


@pytest.mark.parametrize("name", HISTALIGN)
def test_order_of_the_published_sort(name: str) -> None:
    case = HistAlign(name)
    entries = range(case.memory.values.shape[1])
    for b, t in objectives.kept(case.targets):
        rank = objectives.ranks(case.memory, int(case.targets[b, t]), case.embedding, entries, b)
        ours = case.memory.values[b][sorted(rank, key=rank.__getitem__)]
        # entries of one token tie, and the published order among them is arbitrary: compare tokens
        assert ours.tolist() == case.memory.values[b][case.data["hist_sort_indices"][b, t]].tolist()


TRIME_MEMORIES = {
    "local": lambda b, t: objectives.local_visibility(b, t),
    "long": lambda b, t: objectives.long_visibility(b, t),
    "long_same_device": lambda b, t: objectives.long_visibility(b, t),
    "ext": lambda b, t: objectives.external_visibility(b, t),
    "ext_cross_only": lambda b, t: objectives.external_visibility(b, t, own=False),
}


@pytest.mark.parametrize("kind", TRIME_MEMORIES)
def test_trime_training_matches(kind: str) -> None:
    data = golden.load("objectives/trime_train_plain")
    x, keys = data["softmax_input"].clone().requires_grad_(), data["rep"].clone().requires_grad_()
    visible = TRIME_MEMORIES[kind](*data["target"].shape)
    batch = len(visible)  # 3 sequences, or 1 that they are laid into
    stored = keys.reshape(batch, -1, keys.shape[-1])
    similarity = stored @ stored.mT / math.sqrt(keys.shape[-1])
    targets = data["target"].reshape(batch, -1)
    logits = heads.scores(x, data["head_weight"])
    known = memory.Memory(similarity, targets, visible)
    loss = objectives.trime_sum(logits.reshape(batch, -1, logits.shape[-1]), known, targets)
    torch.testing.assert_close(loss, data[f"{kind}_loss_sum"], **EXACT)
    of_x, of_keys = torch.autograd.grad(loss, [x, keys])
    torch.testing.assert_close(of_x, data[f"{kind}_grad_x"], **EXACT)
    torch.testing.assert_close(of_keys, data[f"{kind}_grad_rep"], **EXACT)
    ce = objectives.mle_sum(heads.log_softmax(logits), data["target"])
    torch.testing.assert_close(ce, data["ce_loss_sum"], **EXACT)


def test_ranks_among_visible_entries_only() -> None:
    # four digits, measured on this file independently of these forms
    case = HistAlign("histalign_gpt2_lm")
    assert case.ranking().item() == pytest.approx(1.4626, abs=5e-5)
    valid = objectives.ranking(case.memory, case.targets, case.embedding, 0.001, "offset_mean", "valid")
    assert valid.item() == pytest.approx(1.6056, abs=5e-5)


def by_hand(scores: list[float], values: list[int], visible: list[bool]) -> memory.Memory:
    """One position that looks at the given entries."""
    row = torch.tensor(scores, dtype=torch.float64)[None, None].requires_grad_()
    return memory.Memory(row, torch.tensor([values]), torch.tensor(visible)[None, None])


# cosine to token 0 falls with the token, so ranks of the entries below are 0, 2, 1, 3, 4
FAN = torch.tensor([[math.cos(a), math.sin(a)] for a in (0.0, 0.3, 0.6, 0.9)], dtype=torch.float64)
ENTRIES = ([0.5, 0.1, 0.6, 2.0, 0.7], [0, 1, 0, 2, 3])


@pytest.mark.parametrize(
    ("rank_over", "reduction", "wanted"),
    [
        # entry 3 is hidden. pairs (i, j), offset, hinge at margin 0.25 with ranks over all: (0,1) 2 0.1, (0,4) 4 1.2,
        # (2,1) 1 0, (2,4) 3 0.85
        ("all", "pair_sum", 0.1 + 1.2 + 0.0 + 0.85),
        ("all", "pair_mean", (0.1 + 1.2 + 0.0 + 0.85) / 4),
        ("all", "offset_sum", 0.1 + 1.2 + 0.0 + 0.85),
        ("all", "offset_mean", (0.1 + 1.2 + 0.0 + 0.85) / 4),
        # over the visible ones entry 4 has rank 3: (0,4) 3 0.95, (2,4) 2 0.6, which shares its offset with (0,1)
        ("valid", "pair_sum", 0.1 + 0.95 + 0.0 + 0.6),
        ("valid", "pair_mean", (0.1 + 0.95 + 0.0 + 0.6) / 4),
        ("valid", "offset_sum", (0.1 + 0.6) / 2 + 0.95 + 0.0),
        ("valid", "offset_mean", ((0.1 + 0.6) / 2 + 0.95 + 0.0) / 3),
    ],
)
def test_ranking_by_hand(rank_over: str, reduction: str, wanted: float) -> None:
    known = by_hand(*ENTRIES, [True, True, True, False, True])
    found = objectives.ranking(known, torch.tensor([[0]]), FAN, 0.25, reduction, rank_over)
    assert found.item() == pytest.approx(wanted, abs=1e-12)


def test_a_negative_that_ranks_before_the_positive_makes_no_pair() -> None:
    # tokens 1 and 2 have one embedding, so the negative ties with the positive and wins by place
    twins = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    known = by_hand([5.0, 0.0, 5.0], [2, 1, 2], [True, True, True])
    found = objectives.ranking(known, torch.tensor([[1]]), twins, 0.25, "pair_sum")
    assert found.item() == pytest.approx(5.25)


@pytest.mark.parametrize("reduction", ["offset_mean", "offset_sum", "pair_sum", "pair_mean"])
@pytest.mark.parametrize(
    ("target", "visible"),
    [
        (0, [False] * 5),
        (3, [True] * 4 + [False]),
        (objectives.IGNORED, [True] * 5),
        (0, [True, False, True, False, False]),
    ],
    ids=["nothing stored", "no positive", "no target", "no negative"],
)
def test_ranking_of_nothing_is_zero(reduction: str, target: int, visible: list[bool]) -> None:
    known = by_hand(*ENTRIES, visible)
    assert float(objectives.ranking(known, torch.tensor([[target]]), FAN, 0.25, reduction)) == 0.0


def test_trime_by_hand_and_with_label_values() -> None:
    # two words, z = 0: masses 1 and 1; memory: mass 2 on word 0, mass 3 on word 1
    known = memory.Memory(
        torch.tensor([[[0.0, 0.0], [0.0, 0.0], [2.0, 3.0]]]).double().log(),
        torch.tensor([[0, 1]]),
        torch.tensor([[[False, False], [False, False], [True, True]]]),
    )
    logits = torch.zeros(1, 3, 2, dtype=torch.float64)
    targets = torch.tensor([[-100, -100, 0]])
    assert float(objectives.trime(logits, known, targets)) == pytest.approx(-math.log(3 / 7))
    assert float(memory.log_joint(logits, known)[0, 2, 0]) == pytest.approx(math.log(3 / 7))
    assert float(memory.log_cache_only(logits, known)[0, 2, 0]) == pytest.approx(math.log(2 / 5))
    assert float(memory.log_linear(logits, known, 0.25)[0, 2, 0]) == pytest.approx(math.log(0.75 / 2 + 0.25 * 2 / 5))
    assert float(memory.log_linear(logits, known, 0.25)[0, 1, 0]) == pytest.approx(math.log(1 / 2))
    released = objectives.with_label_values(known, torch.tensor([[-100, -100, -100]]))
    assert float(objectives.trime(logits, released, targets)) == pytest.approx(-math.log(1 / 7))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_in_no_memory_and_no_window(side: str) -> None:
    torch.manual_seed(0)
    states, ids = torch.randn(1, 4, 3).double(), torch.tensor([[2, 0, 2, 1]])
    junk, junk_ids = torch.randn(1, 2, 3).double(), torch.tensor([[2, 2]])
    order = [junk, states] if side == "left" else [states, junk]
    id_order = [junk_ids, ids] if side == "left" else [ids, junk_ids]
    mask = torch.cat([torch.full_like(part, part is ids) for part in id_order], 1)
    real = slice(2, 6) if side == "left" else slice(0, 4)
    padded = torch.cat(order, 1)
    logits = torch.randn(1, 4, 5).double()

    alone = memory.log_joint(logits, memory.decoder_memory(states, ids, temperature=2.0))
    known = memory.decoder_memory(padded, torch.cat(id_order, 1), mask, temperature=2.0)
    known = memory.Memory(known.scores[:, real], known.values, known.visible[:, real])
    torch.testing.assert_close(memory.log_joint(logits, known), alone)
    assert not torch.allclose(memory.log_joint(logits, memory.decoder_memory(states, ids)), alone)  # temperature counts

    weight, bias = torch.randn(3, 9).double(), torch.randn(3).double()
    inputs = heads.multi_input([states], weight, bias, 3)
    torch.testing.assert_close(heads.multi_input([padded], weight, bias, 3, mask)[:, real], inputs)


def test_changes_of_the_scores() -> None:
    z = torch.tensor([-3.0, 0.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(heads.soft_cap(z, 2.0)[2], torch.tensor(2 * math.tanh(1.0), dtype=torch.float64))
    torch.testing.assert_close(heads.multiply(z, 0.5), heads.divide(z, 2.0))
    assert heads.add_bias(z, torch.tensor([1.0, 2.0, 3.0]).double()).tolist() == [-2.0, 2.0, 5.0]
    torch.testing.assert_close(heads.gelu(z), torch.nn.functional.gelu(z, approximate="tanh"))


def test_gates() -> None:
    like = torch.zeros(2, 3, 7, dtype=torch.float64)
    assert heads.uniform_gate(4, like).exp().tolist() == [[[0.25] * 4] * 3] * 2
    static = heads.static_gate(torch.tensor([1.0, 3.0]).double().log(), (2, 3))
    torch.testing.assert_close(static.exp()[1, 2], torch.tensor([0.25, 0.75]).double())
    mixed = heads.log_mixture(static[0], [torch.tensor([[0.2, 0.8]] * 3).double().log()] * 2)
    torch.testing.assert_close(mixed.exp()[0], torch.tensor([0.2, 0.8]).double())


def test_interpolated_by_hand() -> None:
    # attention 1/4, 1/4, 1/2 on tokens 0, 2, 0; in the second row nothing is seen
    attention = torch.tensor([[0.0, 0.0, math.log(2.0), 9.0]] * 2).double()
    visible = torch.tensor([[True, True, True, False], [False] * 4])
    base = torch.tensor([[0.5, 0.3, 0.2]] * 2).double().log()
    ids = torch.tensor([[0, 2, 0, 1]] * 2)
    found = heads.log_interpolated(torch.tensor([0.6, 0.6]).double(), base, attention, ids, visible).exp()
    wanted = torch.tensor([[0.3 + 0.4 * 0.75, 0.18, 0.12 + 0.4 * 0.25], [0.5, 0.3, 0.2]]).double()
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)


def test_factorised_by_hand() -> None:
    classes = torch.tensor([[0.25, 0.75]]).double().log()
    tokens = torch.tensor([[1.0, 5.0, 3.0]]).double().log()
    found = heads.log_factorised(classes, tokens, torch.tensor([0, 1, 0])).exp()
    torch.testing.assert_close(found, torch.tensor([[0.25 * 0.25, 0.75, 0.25 * 0.75]]).double())


def test_forms_import_nothing_of_the_library() -> None:
    files = list((Path(__file__).parent / "textbook").glob("*.py"))
    assert len(files) >= 6
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not [module for module in modules if module.split(".")[0] == "nextword"], path


def test_an_unknown_golden_file_is_named() -> None:
    with pytest.raises(ValueError, match="'heads/gpt2_Q'"):
        golden.load("heads/gpt2_Q")
