"""Retrieval above trained heads: each change is that of the same seed, and what is complete is not made again."""

from __future__ import annotations

from pathlib import Path

import pytest
import retrieval_on_heads

from nextword.results.records import BreakdownMeaning, GroupScore, MetricValue, ModelScore, ScoreResults

COUNTED = {"head": "softmax", "objective": "mle", "backbone": "GPT2LMHeadModel", "parameters": 1, "reads": []}


def model(name: str, nll: float) -> ModelScore:
    group = GroupScore(group="new", tokens=2, nats=4 * nll, share_of_nats=0.5, nll=2 * nll)
    return ModelScore(
        **COUNTED,
        name=name,
        window=4,
        stride=2,
        tokens=4,
        values={"nll": MetricValue(value=nll, unit="nats", n=4)},
        breakdowns={"new": [group]},
    )


def seed(plain: float, *heads: float) -> ScoreResults:
    models = [model("plain", plain), model("plain + ngram", plain - 0.5), model("plain + cache", plain - 0.1)]
    for name, nll in zip(retrieval_on_heads.HEADS, heads, strict=True):
        models += [model(name, nll), model(f"{name} + ngram", nll - 0.1 * nll)]
    meaning = {"new": BreakdownMeaning(title="New tokens", meaning="Not seen before.")}
    return ScoreResults.model_construct(models=models, breakdowns=meaning)


def test_changes_are_taken_seed_by_seed_from_the_same_head() -> None:
    overall, groups = retrieval_on_heads.gains([seed(3.0, 2.0, 1.0, 1.0), seed(3.0, 4.0, 1.0, 1.0)], ["ngram", "cache"])
    assert overall["columns"] == ["head", "tokens", "alone", "with ngram", "with cache"]
    assert overall["rows"][0] == ["SmolLM2 as it is", "all", "3.000", "−0.500", "−0.100"]
    assert overall["rows"][1] == [
        "`softmax+proj`", "all", "3.000 <sub>2.000–4.000</sub>", "−0.300 <sub>−0.400 to −0.200</sub>", "–",
    ]  # fmt: skip
    assert groups["caption"].startswith("New tokens")
    assert groups["rows"][0] == ["SmolLM2 as it is", "new", "6.000", "−1.000", "−0.200"]


def test_a_model_that_is_complete_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(retrieval_on_heads, "nextword", lambda *arguments: calls.append(arguments))
    out = retrieval_on_heads.added(Path("model"), "cache", Path("states"), tmp_path / "model")
    assert calls == [("attach", Path("model"), "--states", Path("states"), "--head", "cache", "--out", out)]
    out.mkdir()
    (out / "calibration.json").write_text("{}", encoding="utf-8")
    retrieval_on_heads.added(Path("model"), "cache", Path("states"), out)
    assert len(calls) == 1
