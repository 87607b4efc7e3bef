from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nextword.cli import app
from nextword.results.records import EvaluationResults


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    lines = [{"prompt": str(i), "output": f"a b {i} a", "reference": f"a c {i} b"} for i in range(5)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_evaluates_prints_and_writes(samples: Path, tmp_path: Path) -> None:
    done = run(
        "evaluate", samples, "--field", "text=output", "--metrics", "distinct:1,2", "--set", "distinct.n=[1]",
        "--set", "resamples=200", "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Distinct-1" in done.output
    assert "Distinct-2" not in done.output
    results = EvaluationResults.load(tmp_path / "out" / "results.json")
    assert results.systems[0].name == "mine"
    assert results.settings["resamples"] == 200
    assert (tmp_path / "out" / "report.html").exists()
    again = run("report", tmp_path / "out", "--out", tmp_path / "again.html")
    assert again.exit_code == 0
    assert (tmp_path / "again.html").read_text() == (tmp_path / "out" / "report.html").read_text()


def test_files_of_one_name_are_seeds(samples: Path, tmp_path: Path) -> None:
    other = samples.with_name("other.jsonl")
    other.write_text(samples.read_text().replace("a b", "c b"))
    given = (f"x={samples}", f"x={other}", "--field", "text=output", "--metrics", "distinct,rep", "--out", tmp_path)
    done = run("evaluate", *given)
    assert done.exit_code == 0, done.output
    assert len(EvaluationResults.load(tmp_path / "results.json").systems[0].files) == 2


def test_files_of_one_name_in_two_folders_are_not_taken_for_seeds(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / samples.name
    other.write_text(samples.read_text())
    done = run("evaluate", samples, other)
    assert done.exit_code == 2
    assert "must have different names (both are 'mine'); name them" in done.output


def test_results_of_a_comparison_are_not_overwritten(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"kind": "compare"}')
    done = run("evaluate", samples, "--field", "text=output", "--metrics", "rep", "--out", tmp_path)
    assert done.exit_code == 2
    assert "must be of 'nextword evaluate' (compare given)" in " ".join(done.output.split())
    assert (tmp_path / "results.json").read_text() == '{"kind": "compare"}'


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--metrics", "distinct"], "mine.jsonl, line 1: no 'text', which distinct needs"),
        (["--metrics", "distinkt"], "unknown metric 'distinkt'. Did you mean 'distinct'"),
        (["--field", "text"], "--field text: must be FIELD=NAME; write it like --field text=prediction"),
        (
            ["--field", "text=out", "--metrics", "distinct"],
            "must have 'out', because of --field text=out. Did you mean 'output'",
        ),
        (
            ["--metrics", "distinct", "--set", "zipf.ranks=3"],
            "'zipf' must be one of the metrics to compute; add --metrics zipf",
        ),
        (["--set", "zipff.ranks=3"], "unknown metric 'zipff'. Did you mean 'zipf'"),
        (["--field", "text=output", "--metrics", "distinct", "--set", "distinct.m=3"], "distinct.m: unknown key"),
        (["--set", "hunam=false"], "hunam: unknown key. Did you mean 'human'"),
    ],
)
def test_mistakes_are_one_line_and_code_2(words: list[str], message: str, samples: Path, tmp_path: Path) -> None:
    done = run("evaluate", samples, *words, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert done.output.startswith("error: ")
    assert message in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_list_names_every_metric() -> None:
    from nextword.evaluation.metrics import registry

    listed = run("list", "metrics").output
    assert all(name in listed for name in registry.names())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"output": "a b c"},
            "must have a field for at least one metric: it has output. If 'output' is the generated text: --field text",
        ),
        ({"text": None}, "must have a field for at least one metric: it has no key with a value, and 'text' is null."),
        (
            {"prompt": "a", "n": 3},
            "must have a field for at least one metric: it has n, prompt. The generated text is read from 'text', or",
        ),
        ({"text": ""}, "no metric can be computed of "),
    ],
)
def test_nothing_to_measure_is_refused(line: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(f"{json.dumps(line)}\n" * 3)
    done = run("evaluate", path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "out").exists()


def test_another_key_is_suggested_for_a_named_metric(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"output": "a b c"}\n')
    done = run("evaluate", path, "--metrics", "distinct", "--out", tmp_path / "out")
    assert (done.exit_code, "To read text from another key: --field text=KEY" in done.output) == (2, True)


def test_plain_text_is_measured_and_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a b\nc d\n")
    (tmp_path / "blocks.txt").write_text("a b\nc d\n\ne\n")
    done = run(
        "evaluate", tmp_path / "lines.txt", tmp_path / "blocks.txt", "--metrics", "distinct:1", "--out", tmp_path / "o"
    )
    assert done.exit_code == 0, done.output
    assert "plain text, one text per line: lines.txt" in done.output
    assert "plain text, a text between blank lines: blocks.txt" in done.output
    files = [system.files[0] for system in EvaluationResults.load(tmp_path / "o" / "results.json").systems]
    assert [(file.plain_text, file.samples) for file in files] == [("lines", 2), ("blocks", 2)]


def test_a_metric_with_a_setting_stands_alone() -> None:
    from nextword.cli.evaluate import _with_settings

    with pytest.raises(ValueError, match=r"because it has a setting; write --metrics rep --metrics distinct:1"):
        _with_settings(["rep,distinct:1"], [])
    assert len(_with_settings(["rep", "distinct:1,2"], [])) == 2
    assert len(_with_settings(["rep,distinct"], [])) == 2
