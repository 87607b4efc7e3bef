"""What cannot work is said before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path

import options
import pytest
import training_step
from rows import append, read
from shapes import backbone


def given(*argv: str, **toy: int) -> argparse.Namespace:
    parser = options.parser(None, "training_cost")
    parser.add_argument("--new", type=options.at_least(2), default=256)
    parser.add_argument("--head", type=options.method)
    return options.settled(parser, argv, **toy)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--rounds", "0"], "0 is too few, at least 1 is needed"),
        (["--new", "1"], "1 is too few, at least 2 is needed"),
        (["--new", "many"], "invalid number value: 'many'"),
        (["--head", "sofmax"], "Did you mean 'softmax'"),
        (["--head", "cache/mel"], "Did you mean 'mle'"),
    ],
)
def test_the_parser_refuses(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        given(*argv)
    assert message in capsys.readouterr().err


def test_a_table_with_other_columns_is_refused_before_measuring(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    append(path, [{"model": "a", "seconds": 1}])
    with pytest.raises(SystemExit, match=r"training_cost\.csv"):
        given("--out", str(path))
    with pytest.raises(SystemExit, match="Is a directory"):
        given("--out", str(tmp_path))


def test_quick_leaves_what_was_asked_for(tmp_path: Path) -> None:
    out = ("--quick", "--out", str(tmp_path / "rows.csv"))
    toy, asked = vars(given(*out, new=4)), vars(given(*out, "--new", "9", "--rounds", "3", new=4))
    assert (toy["new"], toy["rounds"]) == (4, 1)
    assert (asked["new"], asked["rounds"]) == (9, 3)


@pytest.mark.few(1)
@pytest.mark.parametrize("size", ["toy", "toy-t5"])
def test_a_model_of_ones_own(size: str, tmp_path: Path) -> None:
    model, out = tmp_path / "mine", tmp_path / "rows.csv"
    backbone(size).save_pretrained(model)
    argv = ["--model", str(model), "--head", "cache", "--length", "16", "--rounds", "1", "--out", str(out)]
    training_step.main(argv)
    rows = read(out)
    assert "cache" in {row["model"] for row in rows}
    assert {(row["suite"], row["size"]) for row in rows} == {("mine", str(model))}


def test_a_model_that_is_too_short_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backbone("toy").save_pretrained(tmp_path / "mine")
    with pytest.raises(ValueError, match="64 tokens, 65"):
        backbone(str(tmp_path / "mine"), positions=65)
    with pytest.raises(SystemExit):
        training_step.main(["--model", str(tmp_path / "nothing")])
    assert "no folder with a config.json" in capsys.readouterr().err
