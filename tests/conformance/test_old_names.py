"""Arguments, settings, methods, options and records by the names that they had: place, of a position in a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import nextword as nw
from nextword.cli import app
from nextword.distribution import SoftmaxDistribution
from nextword.distribution.mixtures import PointerMixture
from nextword.inference.generation.generation_passes import GenerationSettings
from nextword.inference.generation.samples_files import PartialSamples
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.results.records.token_trace import TraceRecord
from nextword.serving.http.requests import CompletionRequest
from nextword.settings.config import validated
from tests.helpers.conditioned_models import conditioned, texts, with_words
from tests.helpers.families import inputs, tiny
from tests.helpers.made_up_traces import story
from tests.helpers.word_models import family_model


@pytest.mark.parametrize("settings", [ScoreSettings, GenerationSettings])
def test_settings(settings: type[ScoreSettings | GenerationSettings]) -> None:
    assert validated(settings, {"places": 2}).positions == validated(settings, {"positions": 2}).positions == 2


def test_methods_that_are_called_and_that_are_defined() -> None:
    model, ids = nw.attach(family_model("gpt2"), "pg"), torch.tensor([[3, 4, 5, 4]])
    distribution = model.distribution(ids)
    assert isinstance(distribution, PointerMixture)
    for name, share in distribution.places().items():
        assert torch.equal(share, distribution.positions()[name])
    assert distribution.places_in() == distribution.positions_in() == {"pointer": "text"}
    assert distribution.token_places(ids[0]).keys() == distribution.token_positions(ids[0]).keys()

    with pytest.warns(FutureWarning, match="positions_in"):

        class OfAPlugin(SoftmaxDistribution):  # type: ignore[misc]
            def places_in(self) -> dict[str, str]:  # type: ignore[override]
                return {"mine": "text"}

    assert OfAPlugin.positions_in(distribution) == {"mine": "text"}  # type: ignore[arg-type]


def test_arguments_of_forward() -> None:
    model, given = conditioned(tiny("gpt2"), "softmax+e", "lmh"), inputs(tiny("gpt2")) | with_words(texts((7, 3, 5)))
    today = model(**given).logits
    given["source_places"] = given.pop("source_positions")
    assert torch.equal(model(**given).logits, today)


def test_samples_of_a_run_that_was_killed(tmp_path: Path) -> None:
    path, run = tmp_path / "greedy.jsonl", {"seed": 0, "positions": 2}
    old = [{"seed": 0, "places": 2}, [0, {"text": "a", "token_ids": [3], "places": {"cache": []}}]]
    path.with_name("greedy.jsonl.partial").write_text("".join(f"{json.dumps(line)}\n" for line in old))
    samples = PartialSamples(path, run)
    samples.append([(1, {"text": "b", "token_ids": [4], "positions": {"cache": []}})])
    samples.finish()
    assert [set(json.loads(line)) & {"places", "positions"} for line in path.read_text().splitlines()] == [
        {"positions"}
    ] * 2


def test_who_drafts() -> None:
    assert type(nw.SpeculativeDecoding("places").drafter) is type(nw.SpeculativeDecoding("head").drafter)
    assert CompletionRequest.model_validate({"prompt": "a", "draft": "places"}).draft == "head"


def test_traces(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    story().save(path)
    content = json.loads(path.read_text())
    content["places_in"] = content.pop("positions_in")
    content["tokens"]["places"] = content["tokens"].pop("positions")
    (tmp_path / "old.json").write_text(json.dumps(content))
    assert content["tokens"]["places"]
    assert TraceRecord.load(tmp_path / "old.json") == TraceRecord.load(path)


def test_an_option() -> None:
    done = CliRunner().invoke(app, ["inspect", "missing-folder", "--text", "a", "--places=2"])
    assert "'--positions'" in done.stderr
    assert "no such option" not in done.stderr.lower()
