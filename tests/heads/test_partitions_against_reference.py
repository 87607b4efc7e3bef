"""Heads with partitions against their float64 textbook forms: values, gradients, sources; padding, chunks, repeats."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from nextword.heads import Head
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import partitions
from tests.oracles.textbook_cases import LAYERS, TINY, Case, Comparison, V, randomised


def softmax(mi: bool = False, bias: bool = True, **partition: object) -> dict[str, object]:
    window = {"layers": LAYERS, "window": 3} if mi else None
    return {"head": "softmax", "mi": window, "bias": bias, "partition": partition}


DECODER: dict[str, object] = {
    "c": "softmax+c",
    "p": "softmax+p",
    "cp": "softmax+cp",
    "r:3": "softmax+r:3",
    "r:2,5": "softmax+r:2,5",
    "r:9,2,5": "softmax+r:9,2,5",
    "r of all": f"softmax+r:1,{V}",
    "cr": "softmax+cr:3",
    "pr": "softmax+pr:3",
    "cpr": "softmax+cpr:2,5",
    "cpr, mi": "softmax+cpr:2,5+mi:3x3",
    "cpr, no bias": softmax(bias=False, context=True, pointer=True, rerank=[4]),
    "c, add": softmax(context=True, mode="add"),
    "cp, add": softmax(context=True, pointer=True, mode="add"),
    "p, assign": softmax(pointer=True, mode="assign"),
    "r, add": softmax(rerank=[2, 5, 9], rerank_mode="add"),
    "cpr, add, add": softmax(context=True, pointer=True, rerank=[2, 5], mode="add", rerank_mode="add"),
    "r, initial": softmax(rerank=[2, 5, 9], candidates="initial"),
    "r, initial, add": softmax(rerank=[2, 5, 9], candidates="initial", rerank_mode="add"),
    "c, current": softmax(context=True, include_current=True),
    "p, current": softmax(pointer=True, include_current=True),
    "cpr, current, mi": softmax(mi=True, context=True, pointer=True, rerank=[3], include_current=True),
    "mos cpr": "mos:3+cpr:2,5+mi:3x3",
    "mos c static": "mos:2,static+c",
    "mos r uniform": "mos:2,uniform+r:4",
}
BOTH: dict[str, object] = {
    "e": "softmax+e",
    "ce": "softmax+ce",
    "ep": "softmax+ep",
    "cep": "softmax+cep",
    "er": "softmax+er:3",
    "cepr": "softmax+cepr:2,5",
    "cepr, mi": "softmax+cepr:2,5+mi:1x3",
    "cepr, no bias": softmax(bias=False, context=True, encoder=True, pointer=True, rerank=[4]),
    "c of a decoder with a source": "softmax+c",
    "p of a decoder with a source": "softmax+p",
    "e, add": softmax(encoder=True, mode="add"),
    "cepr, add": softmax(context=True, encoder=True, pointer=True, rerank=[3], mode="add"),
    "cep, current": softmax(context=True, encoder=True, pointer=True, include_current=True),
    "mos cepr": "mos:2+cepr:3+mi:1x3",
}
ALL = [("decoder", name) for name in DECODER] + [("both", name) for name in BOTH]


def maps(linear: torch.nn.Linear | None) -> partitions.Map | None:
    return None if linear is None else (linear.weight, linear.bias)


def textbook_of(head: Head) -> partitions.Partitions:
    """A head's projections under the names of the textbook form."""
    own, config = head.partition, head.config.partition
    base = head.project[0] if isinstance(head.project, torch.nn.ModuleList) else head.project
    # in a state dict the first reranker is that of the largest step
    rerankers = dict(zip(sorted(config.rerank, reverse=True), map(maps, own.rerankers), strict=True))
    pairs = {
        name: None if local is None else (maps(local.query), maps(local.key))
        for name, local in {"local": own.local, "source_local": own.source_local}.items()
    }
    return partitions.Partitions(
        maps(base),
        rerankers,
        maps(own.context),
        maps(own.encoder),
        # P alone is added unless another mode is asked for, all others are assigned
        mode=config.mode or ("assign" if config.context or config.encoder else "add"),
        rerank_mode=config.rerank_mode,
        candidates=config.candidates,
        include_current=config.include_current,
        **pairs,
    )


def form(head: Head, case: Case) -> Tensor:
    parts, text, source = textbook_of(head), case.text(head), case.source(head)
    if not isinstance(head.project, torch.nn.ModuleList):
        return partitions.log_partitioned(parts, text, case.weight, source)
    gate = {
        "dynamic": lambda: textbook.dynamic_gate(text.inputs, head.gate.linear.weight, head.gate.linear.bias),
        "static": lambda: textbook.static_gate(head.gate.scores, case.ids.shape),
        "uniform": lambda: textbook.uniform_gate(len(head.project), text.inputs),
    }[head.config.gate]()
    others = [maps(project) for project in head.project[1:]]
    return partitions.log_partitioned_mixture(gate, parts, others, text, case.weight, source)


@cache
def compared(model: str, name: str, length: int = 9) -> Comparison:
    """Computed once for all tests."""
    head = randomised((DECODER if model == "decoder" else BOTH)[name], over_source=model == "both")
    case = Case(length)
    return Comparison(head, case, form(head, case))


@pytest.mark.parametrize("mebibytes", [256, TINY], ids=["whole", "chunked"])
@pytest.mark.parametrize(("model", "name"), ALL)
def test_log_probs(model: str, name: str, mebibytes: float) -> None:
    compared(model, name).check_values(mebibytes)


@pytest.mark.parametrize(("columns", "mebibytes"), [(1, 256), (1, TINY), (12, TINY)])
@pytest.mark.parametrize(("model", "name"), ALL)
def test_log_prob_and_gradients(model: str, name: str, columns: int, mebibytes: float) -> None:
    compared(model, name).check_gradients(columns, mebibytes)


@pytest.mark.parametrize(("model", "name"), ALL)
def test_questions_agree(model: str, name: str) -> None:
    compared(model, name).check_answers()


@pytest.mark.parametrize(("model", "name"), ALL)
def test_some_positions_are_those_of_all(model: str, name: str) -> None:
    compared(model, name).check_some_positions()


@pytest.mark.parametrize(
    ("model", "name"),
    [("decoder", "p"), ("decoder", "cpr"), ("decoder", "cp, add"), ("both", "cepr"), ("both", "e, add")],
)
def test_tokens_that_the_output_layer_lacks(model: str, name: str) -> None:
    compared(model, name).check_foreign_tokens()


@pytest.mark.parametrize(
    ("model", "name"), [("decoder", "cpr, mi"), ("decoder", "cpr, current, mi"), ("both", "cepr, mi")]
)
def test_sequences_of_one_token(model: str, name: str) -> None:
    comparison = compared(model, name, length=1)
    comparison.check_values(256)
    comparison.check_gradients(1, 256)
    comparison.check_gradients(12, TINY)


@pytest.mark.parametrize(
    ("model", "name", "in_partitions"),
    [("decoder", "cpr", 1.0), ("both", "cepr", 1.0), ("decoder", "cpr, add, add", 0.0), ("both", "e, add", 0.0)],
)
def test_the_vocabulary_bias_counts_once(model: str, name: str, in_partitions: float) -> None:
    """In a score that takes another's place, and not again in one that is added to it."""
    comparison = compared(model, name)
    head, case = comparison.head, Case(5)
    case.bias = torch.linspace(-2, 2, V, dtype=torch.float64).requires_grad_()

    def widened(projection: partitions.Map | None, coordinate: float = in_partitions) -> partitions.Map | None:
        # one more coordinate of every query meets the bias as one more column of the vocabulary
        if projection is None:
            return None
        weight, bias = projection
        return torch.cat([weight, torch.zeros_like(weight[:1])]), torch.cat([bias, bias.new_tensor([coordinate])])

    parts = textbook_of(head)
    parts = replace(
        parts,
        base=widened(parts.base, 1.0),
        rerankers={k: widened(step) for k, step in parts.rerankers.items()},
        context=widened(parts.context),
        encoder=widened(parts.encoder),
    )
    vocabulary = torch.cat([case.weight, case.bias[:, None]], 1)
    expected = partitions.log_partitioned(parts, case.text(head), vocabulary, case.source(head))
    comparison = Comparison(head, case, expected)
    comparison.check_values(256)
    comparison.check_gradients(12, TINY)


@pytest.mark.parametrize(
    ("model", "name", "wanted"),
    [
        ("decoder", "p", {"local"}),
        ("decoder", "cp", {"context", "local"}),
        ("decoder", "r:9,2,5", {"rerankers"}),
        ("both", "p of a decoder with a source", {"local"}),
        ("both", "ep", {"encoder", "source_local"}),  # local embeddings are those of the words that are partitioned
        ("both", "cep", {"context", "encoder", "local", "source_local"}),
    ],
)
def test_projections_that_a_head_has(model: str, name: str, wanted: set[str]) -> None:
    names = dict(compared(model, name).head.partition.named_parameters())
    assert {own.split(".")[0] for own in names} == wanted
    # published: the map of the encoder's states has no bias, every other has one
    weights = [own for own in names if own.endswith("weight")]
    assert [own for own in weights if own.removesuffix("weight") + "bias" not in names] == (
        ["source_local.key.weight"] if "source_local" in wanted else []
    )


@pytest.mark.parametrize(("model", "name"), [("decoder", "cpr"), ("both", "cepr"), ("decoder", "r:9,2,5")])
def test_sources_name_what_decides(model: str, name: str) -> None:
    """In assign mode the whole probability of a token is that of the last partition that gave it a score."""
    comparison = compared(model, name)
    head, case = comparison.head, comparison.case
    parts, text, source = textbook_of(head), case.text(head), case.source(head)
    every_id = torch.arange(V).expand(case.ids.numel(), -1)
    shares = head(case.context(head)).sources(every_id)
    steps = [f"reranker {k}" for k in sorted(parts.rerankers, reverse=True)]
    words = ["encoder"] * (parts.encoder is not None) + ["context"] * (parts.context is not None)
    assert set(shares) == {"softmax", *steps, *words}
    probs = comparison.expected.detach().exp().flatten(0, 1)
    for position, (b, t) in enumerate((b, t) for b in range(len(case.ids)) for t in range(case.ids.shape[1])):
        owner = ["softmax"] * V
        query = text.inputs[b, t]
        scores = {k: case.weight @ textbook.project(query, *step) for k, step in parts.rerankers.items()}
        _, chosen = partitions.reranked(case.weight @ textbook.project(query, *parts.base), scores)
        for k, best in chosen:
            for v in best:
                owner[v] = f"reranker {k}"
        if source is not None:
            for v in partitions.source_places(source, b):
                owner[v] = "encoder"
        if parts.context is not None:
            for v in partitions.context_places(text, b, t):
                owner[v] = "context"
        for share_name, share in shares.items():
            mine = torch.tensor([one == share_name for one in owner])
            torch.testing.assert_close(share[position], probs[position] * mine, rtol=0, atol=1e-10)
