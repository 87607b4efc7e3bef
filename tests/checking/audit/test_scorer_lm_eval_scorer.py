from __future__ import annotations

from pathlib import Path

import pytest
import torch

import nextword as nw
from nextword.checking.audit.scorer import LmEvalScorer, open_lm_eval
from tests.helpers.families import tiny
from tests.helpers.word_tokenizer import word_tokenizer


class Requests:
    """A model of lm-eval, as far as it is asked: each token of a continuation has probability 1/4."""

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        assert all(context for _, context, _ in requests)
        return [(len(continuation) * torch.tensor(0.25).log().item(), False) for _, _, continuation in requests]


class CountsItsContext(Requests):
    """The first token of the continuation is counted twice."""

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        right = super()._loglikelihood_tokens(requests, disable_tqdm)
        return [(score - 0.1 * (len(one[2]) > 1), greedy) for (score, greedy), one in zip(right, requests, strict=True)]


def test_requests_of_tokens_are_audited() -> None:
    report = nw.check(LmEvalScorer(Requests()), vocabulary=4, lengths=[1, 6])
    assert report.passed, str(report)
    assert {row.name for row in report.rows if row.verdict == "passed"} > {"continuations", "totals"}
    (found,) = nw.check(LmEvalScorer(CountsItsContext()), vocabulary=4, lengths=[6]).findings
    assert found.fault == "total"


@pytest.mark.tools
def test_what_lm_eval_opens_is_audited(tmp_path: Path) -> None:
    tiny("gpt2").save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    scorer, vocabulary = open_lm_eval(f"pretrained={tmp_path},device=cpu")
    report = nw.check(scorer, vocabulary=vocabulary, lengths=[5])
    assert report.passed, str(report)
    with pytest.raises(ValueError, match="--lm-eval: 'nothing:a=b' cannot be opened"):
        open_lm_eval("nothing:a=b")
