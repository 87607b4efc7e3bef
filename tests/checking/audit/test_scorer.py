"""The scorers that people have: each in its right form, and with the mistake that is made in it."""

from __future__ import annotations

import json
import math
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import nextword as nw
from nextword.checking.findings import CheckReport

V = 11
Texts = Sequence[Sequence[int]]


def faults(report: CheckReport) -> list[str]:
    """By name."""
    return [one.fault for one in report.findings]


class NumpyNGram:
    """A bigram model of counts with add-one smoothing, in numpy alone.

    Args:
        out_of: What each row is divided by, beyond the counts of what followed.
    """

    def __init__(self, out_of: int = V) -> None:
        text = np.random.default_rng(0).integers(V, size=500)
        self.counts = np.zeros((V, V))
        np.add.at(self.counts, (text[:-1], text[1:]), 1)
        self.out_of = out_of

    def __call__(self, prefixes: Texts) -> NDArray[np.float64]:
        """Logarithms (N, V)."""
        rows = self.counts[[prefix[-1] for prefix in prefixes]]
        return np.log((rows + 1) / (rows.sum(1, keepdims=True) + self.out_of))


def test_a_numpy_ngram_is_audited() -> None:
    assert nw.check(NumpyNGram(), vocabulary=V).passed
    (found,) = nw.check(NumpyNGram(out_of=V - 1), vocabulary=V).findings
    assert found.fault == "sum"  # a word more in the vocabulary than in the normaliser


class Handler(BaseHTTPRequestHandler):
    """Answers a POST of prefixes with log-probabilities; the server has the model."""

    def do_POST(self) -> None:
        """JSON to JSON."""
        prefixes = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        told = json.dumps(self.server.model(prefixes).tolist()).encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: Any) -> None:
        """Nothing is said on the terminal."""


@contextmanager
def served(model: Any) -> Iterator[Any]:
    """A scorer that asks a server on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.model = model  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"

    def scorer(prefixes: Texts) -> Any:
        request = urllib.request.Request(address, json.dumps(prefixes).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    try:
        yield scorer
    finally:
        server.shutdown()
        server.server_close()


def test_a_scorer_behind_http_is_audited() -> None:
    with served(NumpyNGram()) as scorer:
        assert nw.check(scorer, vocabulary=V, lengths=[1, 6]).passed


def test_a_server_that_says_the_best_tokens_only_is_found() -> None:
    """As many interfaces do: five log-probabilities, and all others are left at the lowest."""

    def best(prefixes: Texts) -> NDArray[np.float64]:
        whole = NumpyNGram()(prefixes)
        return np.where(whole < np.sort(whole)[:, [-5]], -9999.0, whole)

    with served(best) as scorer:
        report = nw.check(scorer, vocabulary=V, lengths=[1, 6])
    assert faults(report)[0] == "sum"
    assert "is missing" in report.findings[0].sentence


def test_a_server_that_fails_has_code_2() -> None:
    with served(lambda prefixes: 1 / 0) as scorer:
        report = nw.check(scorer, vocabulary=V, lengths=[1])
    assert report.exit_code == 2


class KnnMixture:
    """A bigram model, mixed with what followed the nearest keys of a store.

    Args:
        share: Of the store.
        of_model: Of the model; what is left of one where nothing is wrong.
    """

    def __init__(self, share: float = 0.25, of_model: float | None = None) -> None:
        random = np.random.default_rng(1)
        self.states = random.normal(size=(V, 4))  # of a last token
        self.keys, self.values = random.normal(size=(200, 4)), random.integers(V, size=200)
        self.share, self.of_model = share, 1 - share if of_model is None else of_model

    def __call__(self, prefixes: Texts) -> NDArray[np.float64]:
        """Logarithms (N, V)."""
        model = np.exp(NumpyNGram()(prefixes))
        return np.log(self.of_model * model + self.share * np.stack([self.store(prefix) for prefix in prefixes]))

    def store(self, prefix: Sequence[int]) -> NDArray[np.float64]:
        """Softmax over the distances of the eight nearest, added up by token."""
        far = ((self.keys - self.states[prefix[-1]]) ** 2).sum(1)
        nearest = np.argsort(far)[:8]
        weights = np.exp(-far[nearest])
        return np.bincount(self.values[nearest], weights / weights.sum(), minlength=V)


class OneEach(KnnMixture):
    """Of neighbours with the same token one is kept."""

    def store(self, prefix: Sequence[int]) -> NDArray[np.float64]:
        """Its weight is written where it should be added."""
        far = ((self.keys - self.states[prefix[-1]]) ** 2).sum(1)
        nearest = np.argsort(far)[:8]
        weights = np.exp(-far[nearest])
        found = np.zeros(V)
        found[self.values[nearest]] = weights / weights.sum()
        return found


def test_a_knn_mixture_is_audited() -> None:
    assert nw.check(KnnMixture(), vocabulary=V).passed
    assert faults(nw.check(KnnMixture(of_model=0.751), vocabulary=V)) == ["sum"]
    assert faults(nw.check(OneEach(), vocabulary=V)) == ["sum"]


class Compressor:
    """An adaptive model of order 0, as a compressor has: it says the observed token's logarithm and nothing else.

    Args:
        tokens: Size of the alphabet.
        learns_first: Whether a token is counted before it is scored.
    """

    def __init__(self, tokens: int = V, *, learns_first: bool = False) -> None:
        self.tokens, self.learns_first = tokens, learns_first

    def text_log_probs(self, texts: Texts) -> list[list[float]]:
        """Natural logarithms."""
        return [self._scored(text) for text in texts]

    def _scored(self, text: Sequence[int]) -> list[float]:
        counts: dict[int, int] = {}
        found = []
        for place, token in enumerate(text):
            if self.learns_first:
                counts[token] = counts.get(token, 0) + 1
            found.append(math.log((counts.get(token, 0) + 1) / (place + self.tokens)))
            if not self.learns_first:
                counts[token] = counts.get(token, 0) + 1
        return found


def test_bits_of_observed_tokens_alone_are_audited() -> None:
    report = nw.check(Compressor(), vocabulary=V)
    assert report.passed
    assert f"All {V} continuations of 3 prefixes were tested, without sampling." in report.power
    (found,) = nw.check(Compressor(learns_first=True), vocabulary=V).findings
    assert found.fault == "sum"
    assert "all 11 continuations of" in found.sentence


MANY = 50_257


@pytest.mark.slow
def test_all_continuations_of_a_large_vocabulary_are_asked_for_by_a_thorough_check() -> None:
    quick = nw.check(Compressor(MANY), vocabulary=MANY, lengths=[1, 6])
    (row,) = [row for row in quick.rows if row.name == "continuations"]
    assert (row.verdict, row.where) == (
        "not checked",
        "50,257 continuations of a prefix are tested only in a thorough check",
    )
    thorough = nw.check(Compressor(MANY), vocabulary=MANY, lengths=[1, 6], effort="thorough")
    assert thorough.passed, str(thorough)
    assert "All 50,257 continuations of 2 prefixes were tested, without sampling." in thorough.power


@pytest.mark.slow
@pytest.mark.parametrize("missing", [1e-2, 1e-3])
def test_one_token_of_a_large_vocabulary_is_not_overlooked(missing: float) -> None:
    """Most of what is too little lies on one token in 50,257, which no sample of continuations comes by."""

    class Short(Compressor):
        def _scored(self, text: Sequence[int]) -> list[float]:
            rest = math.log((1 - missing) / (MANY - 1))
            return [-99.0 if token == 4321 else rest for token in text]

    report = nw.check(Short(), vocabulary=MANY, lengths=[1], effort="thorough")
    assert "sum" in faults(report)


def test_numbers_may_be_tensors_arrays_or_lists() -> None:
    told = NumpyNGram()
    for made in (torch.as_tensor, np.asarray, lambda rows: rows.tolist()):
        assert nw.check(lambda prefixes, made=made: made(told(prefixes)), vocabulary=V, lengths=[4]).passed
