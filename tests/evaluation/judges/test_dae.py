"""DAE-style entailment with a small trained parser, and SP-Acc with parsers by import path."""

from __future__ import annotations

import math
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextword.evaluation.judges.dae import arcs_of
from nextword.evaluation.judges.sp_acc import verdict
from nextword.evaluation.metrics import Table, UndefinedError
from nextword.evaluation.metrics.sample import MissingFieldError
from tests.helpers.tiny_judges import GAMES, KOREAN, metric, parts, sample, scores

spacy = pytest.importorskip("spacy")

TRAINING = [
    ("The cat saw a dog .", [1, 2, 2, 4, 2, 2], ["det", "nsubj", "ROOT", "det", "dobj", "punct"]),
    ("Ann bought Rome .", [1, 1, 1, 1], ["nsubj", "ROOT", "dobj", "punct"]),
    ("Rain fell .", [1, 1, 1], ["nsubj", "ROOT", "punct"]),
]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A spaCy pipeline whose parser knows three sentences by heart."""
    from spacy.training import Example
    from spacy.util import fix_random_seed

    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("parser", config={"min_action_freq": 1})  # relations are not to become "dep"
    examples = [
        Example.from_dict(nlp.make_doc(text), {"heads": heads, "deps": relations})
        for text, heads, relations in TRAINING
    ]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(25):
        nlp.update(examples, sgd=optimizer)
    folder = tmp_path_factory.mktemp("pipeline")
    nlp.to_disk(folder)
    return str(folder)


@pytest.mark.slow
def test_arcs_are_those_of_content_words(pipeline: str) -> None:
    """Worked by hand from the training trees: no det, punct or ROOT."""
    nlp = spacy.load(pipeline)
    assert list(arcs_of(nlp("The cat saw a dog ."))) == ["saw cat nsubj", "saw dog dobj"]
    assert list(arcs_of(nlp("Rain fell ."))) == ["fell Rain nsubj"]
    assert list(arcs_of(nlp("Rain"))) == []
    assert list(arcs_of(nlp(""))) == []


def test_one_wrong_arc_makes_a_wrong_summary(pipeline: str, nli_folder: str) -> None:
    """The answer to each arc is that of the nli metric to the arc as a text."""
    document = "The cat saw the dog, and Ann bought a house in Rome."
    texts = ["The cat saw a dog .", "Ann bought Rome .", "Rain fell .", "", "Rain"]
    arcs = [["saw cat nsubj", "saw dog dobj"], ["bought Ann nsubj", "bought Rome dobj"], ["fell Rain nsubj"], [], []]
    flat = [sample(source=document, text=arc) for some in arcs for arc in some]
    entailed = iter(parts(scores("nli", flat, model=nli_folder)["nli"]))
    answers = [[next(entailed) for _ in some] for some in arcs]
    found = scores("dae", [sample(source=document, text=text) for text in texts], model=nli_folder, pipeline=pipeline)
    wanted = [*(float(not all(some)) for some in answers[:3]), 1.0, math.nan]  # an empty text is wrong
    np.testing.assert_array_equal(parts(found["dae"]), wanted)
    assert (found["dae"].n, found["dae"].note) == (4, "empty texts, which count as wrong: 1 of 5")
    assert found["dae"].measure.goal == "lower"
    everything = [answer for some in answers for answer in some]
    assert found["dae-arcs"].value == pytest.approx(np.mean(everything))
    assert found["dae-arcs"].n == 5
    assert 0 < np.mean(everything) < 1  # the random model says both


@pytest.mark.slow
def test_dae_without_arcs_is_undefined(pipeline: str, nli_folder: str) -> None:
    empty = scores("dae", [sample(source="a", text="")], model=nli_folder, pipeline=pipeline)
    assert {key: one.value for key, one in empty.items()} == {"dae": 1.0}  # wrong, and no arc
    for fields in ({"source": "a", "text": "Rain"}, {"source": " ", "text": "Rain fell ."}):
        with pytest.raises(UndefinedError, match="no sample has a value"):
            scores("dae", [sample(**fields)], model=nli_folder, pipeline=pipeline)
    scores("dae", [sample(source=KOREAN[0], text=f"{KOREAN[1]} {KOREAN[2]}")], model=nli_folder, pipeline=pipeline)
    with pytest.raises(MissingFieldError, match="no 'source', which dae needs"):
        scores("dae", [sample(text="a")], model=nli_folder, pipeline=pipeline)


def test_dae_pipelines_that_cannot_be_used(nli_folder: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dae\.pipeline: 'no_such_pipeline'"):
        metric("dae", model=nli_folder, pipeline="no_such_pipeline")
    spacy.blank("en").to_disk(tmp_path)
    with pytest.raises(ValueError, match=r"dae\.pipeline:.*parser, only nothing"):
        metric("dae", model=nli_folder, pipeline=str(tmp_path))
    with pytest.raises(ValueError, match=r"dae\.model: must be the folder"):
        metric("dae", pipeline=str(tmp_path))


@pytest.fixture
def parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with parsers, as a user's."""

    def cell_is_named(table: Table, text: str) -> bool | None:
        if text == "?":
            return None
        return any(cell in text for row in table.rows for cell in row)

    def fails(table: Table, text: str) -> bool:
        raise KeyError("no such column")

    module: Any = types.ModuleType("my_parsers")
    module.cell_is_named, module.fails, module.number = cell_is_named, fails, 3
    module.says_maybe = lambda table, text: "maybe"
    module.numpy_true = lambda table, text: np.True_
    module.programs = lambda table, text: [(0.9, False), *[(0.5, True)] * len(text)]
    module.pairs_of_what = lambda table, text: [("a", "b")]
    monkeypatch.setitem(sys.modules, "my_parsers", module)


@pytest.mark.usefixtures("parsers")
def test_programs_that_are_true() -> None:
    texts = ["athens in 1896", "paris", "?", "", KOREAN[0]]
    fields = [*((GAMES, text) for text in texts), (Table(header=["a"], rows=[]), "athens")]
    found = scores("sp", [sample(table=table, text=text) for table, text in fields], parser="my_parsers:cell_is_named")
    np.testing.assert_array_equal(parts(found["sp"]), [1, 0, 0, 0, 0, math.nan])
    np.testing.assert_array_equal(parts(found["sp-parsed"]), [1, 1, 0, 0, 1, math.nan])
    assert (found["sp"].value, found["sp"].n) == (0.2, 5)
    assert found["sp"].note == found["sp-parsed"].note == "empty texts, which count as wrong: 1 of 6"
    assert scores("sp", [sample(table=GAMES, text="a")], parser="my_parsers:numpy_true")["sp"].value == 1
    assert scores("sp", [sample(table=GAMES, text="")], parser="my_parsers:cell_is_named")["sp"].value == 0
    with pytest.raises(UndefinedError):
        scores("sp", [sample(table=Table(header=["a"], rows=[]), text="")], parser="my_parsers:cell_is_named")


def test_verdict_is_that_of_logicnlg() -> None:
    """Up to 8 programs the best one decides, of more any of the best three; those after the 36th do not count."""
    best_wrong = [(0.9, False), (0.8, True), (0.7, False), (0.6, False)]
    assert verdict(best_wrong) is False
    assert verdict([*best_wrong, *[(0.1, False)] * 4]) is False
    assert verdict([*best_wrong, *[(0.1, False)] * 5]) is True
    assert verdict([(0.9, False), (0.8, False), (0.7, False), (0.6, True), *[(0.1, True)] * 9]) is False
    assert verdict([*[(0.1, False)] * 36, (0.9, True)]) is False
    assert verdict([*[(0.1, False)] * 35, (0.9, True)]) is True
    assert verdict([(-2.0, True), (-3.0, False)]) is True
    assert verdict([]) is None


@pytest.mark.usefixtures("parsers")
def test_parser_may_give_its_programs() -> None:
    samples = [sample(table=GAMES, text="a" * count) for count in (1, 7, 8, 40)]
    assert parts(scores("sp", samples, parser="my_parsers:programs")["sp"]) == [0, 0, 1, 1]


@pytest.mark.usefixtures("parsers")
@pytest.mark.parametrize(
    ("parser", "message"),
    [
        (None, r"sp\.parser: must be a semantic parser"),
        ("my_parsers", r"sp\.parser: must be module:function \('my_parsers' given"),
        ("my_parsers:", "must be module:function"),
        ("no_such_module_at_all:f", "module 'no_such_module_at_all' cannot be imported"),
        ("my_parsers:parse", "module 'my_parsers' has no function 'parse'"),
        ("my_parsers:number", "module 'my_parsers' has no function 'number'"),
        ("my_parsers:fails", r"samples.jsonl line 1: parser my_parsers:fails fails: KeyError\('no such column'\)"),
        ("my_parsers:says_maybe", r"line 1: .* must return True, False, None \(no program\) or .* \('maybe' given"),
        ("my_parsers:pairs_of_what", r"line 1: .* or a list of programs with .* \(\[\('a', 'b'\)\] given"),
    ],
)
def test_parsers_that_cannot_be_used(parser: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scores("sp", [sample(table=GAMES, text="a")], parser=parser)
