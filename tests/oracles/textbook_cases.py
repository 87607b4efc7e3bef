"""Random inputs for comparing a head with its textbook form: padding on both sides, repeats, rows of nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import nextword as nw
from nextword.heads import Head
from nextword.heads.context import Context, Source
from nextword.inference.scoring.token_facts import token_facts
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import partitions

D, V, LAYERS = 6, 17, 3
AMPLE, TINY = 256, 2e-3
"""MiB for scores: room for all of them; for a few rows of V, so that every question is answered in several chunks."""
EXACT = 1e-10
"""Both sides compute in float64, by other formulas: a log-probability loses some of its sixteen digits."""
GRADIENT = 1e-9
"""A gradient sums over all positions and tokens, so it loses one more."""


def _randn(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


class Case:
    """Four sequences: whole, padded on the left, padded on the right, nothing but padding; so are their sources.

    Args:
        length: T; padding is as long as there is room for.
        seed: Of all random numbers.
    """

    def __init__(self, length: int = 9, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.layers = tuple(_randn(generator, 4, length, D) for _ in range(LAYERS))
        self.weight = _randn(generator, V, D)
        self.bias: Tensor | None = None
        self.ids = torch.randint(0, 5, (4, length), generator=generator)
        self.encoder = _randn(generator, 4, length + 2, D)
        # a third of the source's words are those of the text
        self.source_ids = torch.randint(0, V - 2, (4, length + 2), generator=generator)
        self.mask = self._mask(length, left=min(3, length - 1), right=min(2, length - 1))
        self.source_mask = self._mask(length + 2, left=2, right=2)

    @staticmethod
    def _mask(length: int, left: int, right: int) -> Tensor:
        mask = torch.ones(4, length, dtype=torch.bool)
        mask[1, :left] = False
        mask[2, length - right :] = False
        mask[3] = False
        return mask

    @property
    def leaves(self) -> dict[str, Tensor]:
        layers = {f"layer {-1 - i}": layer for i, layer in enumerate(self.layers)}
        bias = {} if self.bias is None else {"vocabulary bias": self.bias}
        return layers | {"vocabulary": self.weight, "encoder": self.encoder} | bias

    def text(self, head: Head) -> partitions.Text:
        """What a head's projections read, by the textbook."""
        inputs = self.layers[0]
        if head.layers:
            block = head.inputs
            merge = block.merge.weight, block.merge.bias
            layers = self.layers[: head.layers]
            if block.normalize:  # of what is merged, not of the state that stands beside it
                normalised = [one / one.square().mean(-1, keepdim=True).sqrt() for one in layers]
                merged = textbook.multi_input(normalised, *merge, block.window, self.mask)[..., inputs.shape[-1] :]
                inputs = torch.cat([inputs, merged], -1)
            else:
                inputs = textbook.multi_input(layers, *merge, block.window, self.mask)
        return partitions.Text(inputs, self.ids, self.mask)

    def source(self, head: Head) -> partitions.Source | None:
        """What an encoder has read; None for a decoder-only model."""
        if not head.dimensions.is_encoder_decoder:
            return None
        return partitions.Source(self.encoder, self.source_ids, self.source_mask)

    def context(self, head: Head, counted: Tensor | None = None) -> Context:
        """The same for the library."""
        source = None
        if head.dimensions.is_encoder_decoder:
            source = Source(self.source_ids, self.source_mask, self.encoder)
        return decoder_context(
            head,
            self.layers[0],
            self.ids,
            LinearVocabulary(self.weight, self.bias),
            layers=self.layers,
            mask=self.mask,
            counted=counted,
            source=source,
        )


class Shown(Case):
    """What the library is given in place of a case: padding is -1 or a token that the output layer lacks.

    An embedding may have rows that the output layer does not (whose places are valid), and virtual tokens have no id.
    """

    def __init__(self, case: Case) -> None:
        self.__dict__.update(case.__dict__)
        place = torch.arange(case.ids.shape[1])
        self.ids = torch.where(case.mask, case.ids, -1)
        lacking = ~case.mask & (place % 2 == 1)
        self.ids[lacking] = V + 3
        self.mask = case.mask | lacking
        self.source_ids = torch.where(case.source_mask, case.source_ids, V + 3)
        self.source_mask = torch.ones_like(case.source_mask)


def randomised(spec: object, *, over_source: bool = False) -> Head:
    """A head whose every parameter is random."""
    head = build_head(spec, D, V, layers=LAYERS, source=D if over_source else None)
    generator = torch.Generator().manual_seed(1)
    for parameter in head.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return head


@dataclass
class Comparison:
    """A head, and what its textbook form says of a case, (B, T, V) with its graph."""

    head: Head
    case: Case
    expected: Tensor

    def found(self) -> Tensor:
        """The library's log-probabilities."""
        return self.head(self.case.context(self.head)).log_probs().unflatten(0, self.case.ids.shape)

    def check_values(self, mebibytes: float) -> None:
        """Every log-probability, and that each row sums to one."""
        with nw.score_memory(mebibytes):
            found = self.found()
        torch.testing.assert_close(found, self.expected, rtol=EXACT, atol=EXACT)
        torch.testing.assert_close(found.exp().sum(-1), torch.ones_like(found[..., 0]), rtol=0, atol=1e-12)

    def check_gradients(self, columns: int, mebibytes: float) -> None:
        """Asked log-probabilities and their gradients wrt states, vocabulary and every parameter.

        Args:
            columns: How many tokens are asked of each position, some of them words of the text.
            mebibytes: Memory for scores.
        """
        generator = torch.Generator().manual_seed(2)
        positions = self.case.ids.numel()
        asked = torch.randint(0, V, (positions, columns), generator=generator)
        asked[::2, 0] = 1  # a word that is often in the text
        share = torch.rand(positions, columns, generator=generator, dtype=torch.float64)
        leaves = self.case.leaves | dict(self.head.named_parameters())
        theirs = self.expected.flatten(0, 1).gather(1, asked)
        possible = theirs > -torch.inf  # an impossible token has no gradient to compare
        with nw.score_memory(mebibytes):
            ours = self.head(self.case.context(self.head)).log_prob(asked)
            torch.testing.assert_close(ours, theirs, rtol=EXACT, atol=EXACT)
            found = _gradients((share * ours)[possible], leaves)
        wanted = _gradients((share * theirs)[possible], leaves)
        for name, left, right in zip(leaves, found, wanted, strict=True):
            torch.testing.assert_close(
                left, right, rtol=GRADIENT, atol=GRADIENT, msg=lambda text, name=name: f"gradient of {name}: {text}"
            )

    def check_foreign_tokens(self) -> None:
        """Tokens that the output layer does not know are nowhere, like padding."""
        shown = Comparison(self.head, Shown(self.case), self.expected)
        shown.check_values(TINY)
        for columns in (1, 12):
            shown.check_gradients(columns, AMPLE)
        shown.check_answers()

    def check_answers(self) -> None:
        """Best tokens, entropy and shares agree with the log-probabilities."""
        distribution = self.head(self.case.context(self.head))
        log_probs = self.expected.detach().flatten(0, 1)
        shares = distribution.sources(torch.arange(V).expand(len(log_probs), -1))
        assert all((share >= 0).all() for share in shares.values())
        torch.testing.assert_close(sum(shares.values()), log_probs.exp(), rtol=0, atol=EXACT)
        values, ids = distribution.top_k(4)
        torch.testing.assert_close(values, log_probs.topk(4).values, rtol=EXACT, atol=EXACT)
        torch.testing.assert_close(log_probs.gather(1, ids), values, rtol=EXACT, atol=EXACT)
        terms = torch.where(log_probs > -torch.inf, log_probs.exp() * log_probs, 0.0)
        torch.testing.assert_close(distribution.entropy(), -terms.sum(-1), rtol=EXACT, atol=EXACT)

    def check_facts(self, mebibytes: float) -> None:
        """What is said about one token a position: its probability, rank, entropy, shares and best places."""
        head = self.head(self.case.context(self.head))
        log_probs = self.expected.detach().flatten(0, 1)
        ids = torch.randint(0, 7, (len(log_probs),), generator=torch.Generator().manual_seed(6))  # some are in the text
        with nw.score_memory(mebibytes):
            facts = token_facts(head, ids, candidates=4, positions=3)
        observed = log_probs.gather(1, ids[:, None])
        _same(facts.log_prob, observed[:, 0])
        # textbook and library round differently, so that tokens of equal probability are in no order
        above, level = (log_probs > observed + 1e-9).sum(-1) + 1, (log_probs >= observed - 1e-9).sum(-1)
        rank = torch.from_numpy(facts.rank)
        assert ((above <= rank) & (rank <= level)).all()
        terms = torch.where(log_probs > -torch.inf, log_probs.exp() * log_probs, 0.0)
        _same(facts.entropy, -terms.sum(-1))
        _same(facts.candidates.log_prob, log_probs.topk(4).values)
        asked = torch.cat([ids[:, None], torch.from_numpy(facts.candidates.ids)], 1)
        probs = log_probs.gather(1, asked).exp()
        possible = probs > 0
        for name, parts in head.sources(asked).items():
            shares = torch.where(possible, parts.detach() / probs, 0.0)
            _same(facts.shares[name], shares[:, 0])
            _same(facts.candidates.shares[name], shares[:, 1:])
        _same(sum(facts.shares.values()), possible[:, 0].double())
        parts = head.token_positions(ids)
        assert set(facts.positions) == set(parts) == set(head.positions_in())
        for name, of_positions in parts.items():
            shares = torch.where(possible[:, :1], of_positions.detach() / probs[:, :1], 0.0)
            _same(shares.sum(-1), torch.from_numpy(facts.shares[name]))
            best = facts.positions[name]
            _same(best.share, shares.topk(3).values)
            at = torch.from_numpy(best.at)
            assert torch.equal(at == -1, torch.from_numpy(best.share) == 0)
            _same(best.share, shares.gather(1, at.clamp_min(0)).masked_fill(at < 0, 0.0))

    def check_some_positions(self) -> None:
        """Positions picked out are those among all."""
        counted = torch.rand(self.case.ids.shape, generator=torch.Generator().manual_seed(3)) < 0.4
        some = self.head(self.case.context(self.head, counted)).log_probs()
        assert 0 < len(some) < counted.numel()
        torch.testing.assert_close(some, self.expected[counted], rtol=EXACT, atol=EXACT)


def _same(found: Any, expected: Tensor) -> None:
    torch.testing.assert_close(torch.as_tensor(found), expected, rtol=EXACT, atol=EXACT)


def _gradients(terms: Tensor, leaves: dict[str, Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(terms.sum(), list(leaves.values()), materialize_grads=True, retain_graph=True)


CHECKS: dict[str, Callable[[Comparison], None]] = {
    "values": lambda of: of.check_values(AMPLE),
    "values, chunked": lambda of: of.check_values(TINY),
    "gradients": lambda of: of.check_gradients(1, AMPLE),
    "gradients, chunked": lambda of: of.check_gradients(1, TINY),
    "gradients of many": lambda of: of.check_gradients(12, AMPLE),
    "gradients of many, chunked": lambda of: of.check_gradients(12, TINY),
    "answers": Comparison.check_answers,
    "facts": lambda of: of.check_facts(AMPLE),
    "facts, chunked": lambda of: of.check_facts(TINY),
    "some positions": Comparison.check_some_positions,
}
"""What every head is asked about every spec of its test file."""


class Comparisons:
    """The heads of a test file, each with its textbook form, which is computed once for all tests.

    Args:
        form: A head and a case to log-probabilities (B, T, V), by the textbook.
        decoder: Heads of a decoder-only model, by name.
        encoder_decoder: Heads of a model with an encoder, by name.
    """

    def __init__(
        self,
        form: Callable[[Head, Case], Tensor],
        decoder: dict[str, object],
        encoder_decoder: dict[str, object] | None = None,
    ) -> None:
        self.form = form
        self.specs = {"decoder": decoder, "encoder-decoder": encoder_decoder or {}}
        self.every = [(model, name) for model, specs in self.specs.items() for name in specs]
        """Parameters ``("model", "name")`` of a test."""
        self._made: dict[tuple[str, str, int], Comparison] = {}

    def __call__(self, model: str, name: str, length: int = 9) -> Comparison:
        """One head on a case of this length."""
        if (model, name, length) not in self._made:
            head, case = randomised(self.specs[model][name], over_source=model == "encoder-decoder"), Case(length)
            self._made[model, name, length] = Comparison(head, case, self.form(head, case))
        return self._made[model, name, length]

    def check_untrained(self, name: str) -> None:
        """A head at its start leaves the softmax of the model as it is."""
        head, case = build_head(self.specs["decoder"][name], D, V), Case()
        softmax = textbook.log_softmax(textbook.scores(case.layers[0], case.weight))
        found = head(case.context(head)).log_probs().unflatten(0, case.ids.shape)
        torch.testing.assert_close(found, softmax, rtol=1e-12, atol=1e-12)


def rank(spec: object) -> int:
    """Rank of the log-probabilities of a random head at 36 positions; there are V = 17 tokens and D = 6."""
    head, case = randomised(spec), Case(seed=4)
    return int(torch.linalg.matrix_rank(head(case.context(head)).log_probs()))
