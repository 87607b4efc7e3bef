"""Measures how often ``nw.check`` rejects a correct scorer, and how small a fault it detects; prints Markdown tables.

The scorer is a random bigram model of 60 tokens, either correct or with a leak of a known size.

    python benchmarks/audit_power.py --audits 5000 --seeds 20
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import torch
from options import at_least
from scipy.stats import beta
from torch import Tensor

import nextword as nw
from nextword.checking.audit.sampling_properties import SAMPLING
from nextword.checking.audit.scorer import ScorerReader
from nextword.checking.probe_texts import ProbeWords
from nextword.checking.property import Case, worst_of

VOCABULARY, LENGTH = 60, 17
"""As many tokens as the longest text of an audit has by itself."""


class Bigram:
    """A right scorer.

    Args:
        seed: Of its scores and of what it draws.
        leak: Size of the leak, for those that have one.
        dtype: Of all its numbers.
    """

    def __init__(self, seed: int, leak: float = 0.0, dtype: torch.dtype = torch.float64) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        scores = 1.5 * torch.randn(VOCABULARY, VOCABULARY, generator=self.generator, dtype=torch.float64)
        self.log_p, self.leak = scores.to(dtype).log_softmax(-1), leak
        self.precision = str(dtype).removeprefix("torch.")

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Log-probabilities (N, V)."""
        return self.log_p[[prefix[-1] for prefix in prefixes]]

    def sample(self, prefix: Sequence[int], count: int) -> list[int]:
        """Tokens that come next."""
        return torch.multinomial(self.chances(prefix), count, replacement=True, generator=self.generator).tolist()

    def chances(self, prefix: Sequence[int]) -> Tensor:
        """What is drawn from, (V,)."""
        return self.log_p[prefix[-1]].exp()


class TooMuch(Bigram):
    """Every sum is 1 and the leak."""

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Log-probabilities (N, V)."""
        return super().__call__(prefixes) + torch.tensor(self.leak, dtype=self.log_p.dtype).log1p()


class SeesTheTarget(Bigram):
    """A share of the leak goes to the token that is scored."""

    def text_distributions(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """A matrix (T, V) for each text; nothing is said of the first token."""
        return [torch.cat([torch.full((1, VOCABULARY), torch.nan), self._after(list(text))]) for text in texts]

    def _after(self, text: list[int]) -> Tensor:
        own = torch.nn.functional.one_hot(torch.tensor(text[1:], dtype=torch.long), VOCABULARY)
        return ((1 - self.leak) * self.log_p[text[:-1]].exp() + self.leak * own).log()


class SeesItsNeighbours(Bigram):
    """A share of the leak is the mean of the batch."""

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Log-probabilities (N, V)."""
        p = super().__call__(prefixes).exp()
        return ((1 - self.leak) * p + self.leak * p.mean(0)).log()


class DrawsWarmer(Bigram):
    """Draws with a temperature of 1 and the leak."""

    def chances(self, prefix: Sequence[int]) -> Tensor:
        """What is drawn from, (V,)."""
        return (self.log_p[prefix[-1]] / (1 + self.leak)).softmax(-1)


class DrawsUniformly(Bigram):
    """A share of the leak is drawn from all tokens alike."""

    def chances(self, prefix: Sequence[int]) -> Tensor:
        """What is drawn from, (V,)."""
        return (1 - self.leak) * super().chances(prefix) + self.leak / VOCABULARY


def in_single(kind: type[Bigram]) -> Callable[[int, float], Bigram]:
    """The same in single precision."""
    return lambda seed, leak: kind(seed, leak, torch.float32)


LEAKS: dict[str, tuple[str, Callable[[int, float], Bigram], tuple[float, ...]]] = {
    "sum off by, float64": ("sum", TooMuch, (1e-12, 1e-13, 5e-14, 1e-14)),
    "sum off by, float32": ("sum", in_single(TooMuch), (1e-3, 1e-4, 3e-5, 1e-5)),
    "share of the scored token, float64": ("future", SeesTheTarget, (1e-10, 1e-11, 1e-12, 1e-13)),
    "share of the scored token, float32": ("future", in_single(SeesTheTarget), (1e-5, 1e-6, 1e-7, 1e-8)),
    "share of the batch, float64": ("batch-neighbour", SeesItsNeighbours, (1e-10, 1e-11, 1e-12, 1e-13)),
    "share of the batch, float32": ("batch-neighbour", in_single(SeesItsNeighbours), (1e-5, 1e-6, 1e-7, 1e-8)),
    "draws: temperature off by": ("sampling", DrawsWarmer, (0.05, 0.03, 0.02, 0.01)),
    "draws: share from all alike": ("sampling", DrawsUniformly, (0.02, 0.01, 0.005, 0.002)),
}
"""What leaks: the name of the fault, who has it, and in which sizes."""


def sampled_alarms(audits: int) -> int:
    """How many right scorers the check of drawn tokens calls wrong."""
    return sum(_alarm(seed) for seed in range(audits))


def _alarm(seed: int) -> bool:
    words = ProbeWords(torch.arange(VOCABULARY), seed, torch.device("cpu"), pad=0)
    case = Case(Bigram(seed), words, words.sample_of(LENGTH))
    worst = worst_of(SAMPLING, [ScorerReader(case.model, "__call__", VOCABULARY)], [case])
    return worst is not None and worst.found.value > 1


def exact_rows(audits: int) -> tuple[int, float]:
    """Of right scorers that are audited whole: how many fail, and how near the nearest came to a tolerance."""
    failed, nearest = 0, 0.0
    for seed in range(audits):
        for dtype in (torch.float64, torch.float32):
            report = nw.check(Bigram(seed, dtype=dtype), vocabulary=VOCABULARY, seed=seed)
            failed += not report.passed
            shares = [row.worst / row.tolerance for row in report.rows if row.worst and row.name != SAMPLING.name]
            nearest = max(nearest, *shares)
    return failed, nearest


def found(fault: str, make: Callable[[int, float], Bigram], leak: float, seeds: int) -> int:
    """How many of so many scorers with a leak the audit finds."""
    reports = [nw.check(make(seed, leak), vocabulary=VOCABULARY, seed=seed) for seed in range(seeds)]
    return sum(fault in {one.fault for one in report.findings} for report in reports)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints what is measured."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--audits", type=at_least(1), default=5000, help="number of correct scorers with sampling (%(default)s)"
    )
    options.add_argument(
        "--whole", type=at_least(1), default=100, help="number of correct scorers for the whole audit (%(default)s)"
    )
    options.add_argument("--seeds", type=at_least(1), default=20, help="number of scorers with each leak (%(default)s)")
    given: Any = options.parse_args(argv)
    alarms = sampled_alarms(given.audits)
    most = beta.ppf(0.95, alarms + 1, given.audits - alarms)
    print(
        f"sampled tokens: {alarms} false alarms in {given.audits} checks; the rate is below {most:.2g} (95 %)",
        flush=True,
    )
    failed, nearest = exact_rows(given.whole)
    print(
        f"whole checks: {failed} of {2 * given.whole} fail; the largest deviation is {nearest:.2g} of the tolerance\n",
        flush=True,
    )
    print("| leak | size: detected |\n| --- | --- |")
    for name, (fault, make, sizes) in LEAKS.items():
        shares = (f"{size:g}: {found(fault, make, size, given.seeds)}/{given.seeds}" for size in sizes)
        print(f"| {name} | {', '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
