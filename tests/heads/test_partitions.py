"""Partitions of the vocabulary in a softmax or a mixture: published numbers, textbook form, sources, sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nextword.heads import Head
from tests.oracles import head_forms, poster, published_heads
from tests.oracles.published import partitions_of
from tests.oracles.published_heads import PublishedHead
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import partitions
from tests.oracles.textbook_cases import AMPLE, CHECKS, LAYERS, TINY, Case, Comparison, Comparisons, V


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
ENCODER_DECODER: dict[str, object] = {
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
    others = [maps(project) for project in head.project[1:]]
    return partitions.log_partitioned_mixture(head_forms.gate(head, case), parts, others, text, case.weight, source)


compared = Comparisons(form, DECODER, ENCODER_DECODER)


@pytest.mark.few(14)
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("model", "name"), compared.every)
def test_textbook_form(model: str, name: str, check: str) -> None:
    CHECKS[check](compared(model, name))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("decoder", "p"),
        ("decoder", "cpr"),
        ("decoder", "cp, add"),
        ("encoder-decoder", "cepr"),
        ("encoder-decoder", "e, add"),
    ],
)
def test_tokens_that_the_output_layer_lacks(model: str, name: str) -> None:
    compared(model, name).check_foreign_tokens()


@pytest.mark.parametrize(
    ("model", "name"), [("decoder", "cpr, mi"), ("decoder", "cpr, current, mi"), ("encoder-decoder", "cepr, mi")]
)
def test_sequences_of_one_token(model: str, name: str) -> None:
    comparison = compared(model, name, length=1)
    comparison.check_values(AMPLE)
    comparison.check_gradients(1, AMPLE)
    comparison.check_gradients(12, TINY)


@pytest.mark.parametrize(
    ("model", "name", "in_partitions"),
    [
        ("decoder", "cpr", 1.0),
        ("encoder-decoder", "cepr", 1.0),
        ("decoder", "cpr, add, add", 0.0),
        ("encoder-decoder", "e, add", 0.0),
    ],
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
    comparison.check_values(AMPLE)
    comparison.check_gradients(12, TINY)


@pytest.mark.parametrize(
    ("model", "name", "wanted"),
    [
        ("decoder", "p", {"local"}),
        ("decoder", "cp", {"context", "local"}),
        ("decoder", "r:9,2,5", {"rerankers"}),
        ("encoder-decoder", "p of a decoder with a source", {"local"}),
        (
            "encoder-decoder",
            "ep",
            {"encoder", "source_local"},
        ),  # local embeddings are those of the words that are partitioned
        ("encoder-decoder", "cep", {"context", "encoder", "local", "source_local"}),
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


@pytest.mark.parametrize(("model", "name"), [("decoder", "cpr"), ("encoder-decoder", "cepr"), ("decoder", "r:9,2,5")])
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
            for v in partitions.source_positions(source, b):
                owner[v] = "encoder"
        if parts.context is not None:
            for v in partitions.context_positions(text, b, t):
                owner[v] = "context"
        for share_name, share in shares.items():
            mine = torch.tensor([one == share_name for one in owner])
            torch.testing.assert_close(share[position], probs[position] * mine, rtol=0, atol=1e-10)


PUBLISHED_NAMES = {
    "mi_mlp": "inputs.merge",
    "proj_S0": "project",
    "proj_C0": "partition.context",
    "proj_D0": "partition.context",
    "proj_E0": "partition.encoder",
    "proj_PD_query": "partition.local.query",
    "proj_LD_localemb": "partition.local.key",
    "proj_PE0_query": "partition.source_local.query",
    "proj_LE0_localemb": "partition.source_local.key",
    "proj_R0_step0_k5": "partition.rerankers.0",
    "proj_R0_step0_k20": "partition.rerankers.0",
    "proj_R0_step1_k5": "partition.rerankers.1",
}


def without_bias(**partition: object) -> dict[str, object]:
    return {"head": "softmax", "bias": False, "partition": partition}


PUBLISHED = {
    "gpt2_C": "softmax+c",
    "gpt2_C_Mi": "softmax+c+mi:3x3",
    "gpt2_R5": "softmax+r:5",
    "gpt2_R5_20": "softmax+r:5,20",
    "gpt2_P_add": "softmax+p",
    "gpt2_CP": "softmax+cp",
    "gpt2_CPR5_20_Mi": "softmax+cpr:5,20+mi:3x3",
    "t5_E": without_bias(encoder=True),
    "t5_D": without_bias(context=True),
    "t5_CE": without_bias(context=True, encoder=True),
    "t5_CEPR5": without_bias(context=True, encoder=True, pointer=True, rerank=[5]),
    "t5_R5_20": without_bias(rerank=[5, 20]),
}
WITH_SOURCE = ["t5_E", "t5_CE", "t5_CEPR5"]


def published(name: str) -> PublishedHead:
    return PublishedHead(name, PUBLISHED[name], PUBLISHED_NAMES)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_numbers(name: str) -> None:
    published(name).check_values_and_gradients()


@pytest.mark.parametrize("name", WITH_SOURCE)
def test_padding_of_the_source_is_no_word(name: str) -> None:
    head = published(name)
    text, source = head.published.text(), head.published.source(padding_counts=False)
    parts = partitions_of(head.published)
    head.check_without_padding(partitions.log_partitioned(parts, text, head.published.weight, source))


@pytest.mark.parametrize("name", ["gpt2_P_add", "gpt2_CPR5_20_Mi", "t5_CEPR5"])
def test_no_token_is_special(name: str) -> None:
    """The published code never touches the token 100; here it may change places with a word of the text."""
    head = published(name)
    expected, numbers = head.log_probs(padding_counts=True), head.published
    word = int(numbers.ids[0, 1])
    swap = torch.arange(120)
    swap[word], swap[100] = 100, word
    numbers.ids = swap[numbers.ids]
    if numbers.is_t5:
        numbers.data["encoder_ids"] = swap[numbers.data["encoder_ids"]]
    numbers.weight = numbers.weight[swap]
    swapped = head.log_probs(padding_counts=True)
    torch.testing.assert_close(swapped, expected[..., swap], rtol=0, atol=published_heads.AS_TEXTBOOK)


POSTER = {
    "softmax+r:20+mi": 132.1,  # the row "R:20" has the size that it has with multiple inputs
    "softmax+r:20,100+mi": 133.3,
    "softmax+c+mi": 132.1,
    "softmax+p+mi": 133.3,
    "softmax+cr:20,100+mi": 134.5,
    "softmax+cpr:20,100+mi": 136.8,
    "mos:3+cpr:20,100+mi": 139.2,
}


@pytest.mark.parametrize(("spec", "millions"), POSTER.items())
def test_size_is_that_of_the_poster(spec: str, millions: float) -> None:
    assert abs(poster.millions(spec) - millions) < poster.ROUNDING
