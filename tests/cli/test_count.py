from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from nextword.cli import app
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.functional import frequency
from nextword.functional.frequency import TokenCounts
from nextword.inference.scoring.text_tokens import token_ids

TEXT = "the cat sat on the mat\nthe dog ran\n" * 40


def run(*words, width=120):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": str(width), "NEXTWORD_DEBUG": "0"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("counted")
    trained_tokenizer(TEXT, 280, None).save_pretrained(path / "tokenizer")
    (path / "train.txt").write_text(TEXT)
    (path / "rows.tsv").write_text("1\tthe cat\n2\tthe dog\n")
    return path


@pytest.fixture(scope="module")
def counted(folder):
    done = run("count", folder / "train.txt", "--tokenizer", folder / "tokenizer", "--out", folder / "c.npz", width=20)
    assert done.exit_code == 0, done.output
    return folder / "c.npz", done.output


def test_count_writes_the_counts_and_one_line(counted):
    path, output = counted
    tokenizer = trained_tokenizer(TEXT, 280, None)
    found = TokenCounts.load(path)
    assert found.counts.tolist() == np.bincount(token_ids(tokenizer, TEXT), minlength=len(tokenizer)).tolist()
    assert output == f"{found.total:,} tokens, {found.distinct} of 276 distinct: {path}\n"


def test_count_takes_a_column_by_number(folder, tmp_path):
    done = run(
        "count", folder / "rows.tsv", "--tokenizer", folder / "tokenizer", "--text-column", 1, "--out", tmp_path / "c"
    )
    assert done.exit_code == 0, done.output
    tokenizer = trained_tokenizer(TEXT, 280, None)
    expected = np.bincount(token_ids(tokenizer, "the cat\nthe dog\n"), minlength=len(tokenizer))
    assert TokenCounts.load(tmp_path / "c").counts.tolist() == expected.tolist()


def test_ctrl_c_says_that_it_goes_on(folder, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(frequency, "count_tokens", interrupted)
    stopped = run("count", folder / "train.txt", "--tokenizer", folder / "tokenizer", "--out", tmp_path / "c.npz")
    assert stopped.exit_code == 130
    assert "interrupted: the unfinished counts are in the folder of" in stopped.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["count", "gone.txt", "--tokenizer", "{folder}/tokenizer"], "data: 'gone.txt' does not exist"),
        (["count", "{folder}/train.txt", "--tokenizer", "{folder}/gone"], "--tokenizer: cannot load"),
        (["count", "{folder}/rows.tsv", "--tokenizer", "{folder}/tokenizer"], "has no column 'text', only 1, the cat"),
        (["classes", "{folder}/gone.npz"], "counts: cannot read"),
        (["classes", "{folder}/c.npz", "--division", "mefmaks"], "division: must be one of mefmax, eq-freq, eq-token"),
        (["classes", "{folder}/c.npz", "--classes", "999"], "classes: must be from 1 to 276, the number of tokens ("),
        (["classes", "{folder}/c.npz", "--division", "eq-token"], "needs the number of classes"),
    ],
)
@pytest.mark.usefixtures("counted")
def test_mistakes_are_one_line_and_code_2(words, message, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = run(*(word.format(folder=folder) for word in words))
    assert refused.exit_code == 2
    assert refused.output.startswith("error: ")
    assert message in refused.output


def test_classes_of_mefmax(counted):
    path, _ = counted
    found = TokenCounts.load(path)
    done = run("classes", path)
    assert done.exit_code == 0, done.output
    chosen = frequency.mefmax(found.counts)
    assert f"{chosen.count} classes by mefmax, {found.total:,} tokens of train.txt" in done.output
    (marked,) = [line for line in done.output.splitlines() if "◀ mefmax" in line]
    curve = frequency.mefmax_curve(found.counts)
    assert marked.split()[0] == str(chosen.count)
    assert f"{curve.values.max():.4f}" in marked
    rows = [line.split() for line in done.output.splitlines() if "%" in line]
    assert [int(row[1]) for row in rows] == list(chosen.sizes)
    assert sum(float(row[2]) for row in rows) == pytest.approx(100, abs=0.5)


def test_classes_of_a_given_number_with_tokens(counted, folder):
    path, _ = counted
    done = run("classes", path, "--classes", 5, "--division", "eq-token", "--tokenizer", folder / "tokenizer")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines() if "%" in line]
    assert [row[1] for row in rows] == ["56", "55", "55", "55", "55"]
    assert "\N{OPEN BOX}the" in done.output
    assert "◀ eq-token" in done.output
    assert "5 classes by eq-freq" in run("classes", path, "--classes", 5).output


def test_classes_of_another_tokenizer_are_refused(counted, tmp_path):
    trained_tokenizer("other words\n" * 30, 270, None).save_pretrained(tmp_path)
    refused = run("classes", counted[0], "--tokenizer", tmp_path)
    assert refused.exit_code == 2
    assert "were made with another tokenizer" in refused.output


def test_a_long_curve_is_thinned_and_keeps_the_best(tmp_path):
    np.save(tmp_path / "even.npy", np.full(500, 3))
    done = run("classes", tmp_path / "even.npy")
    assert done.exit_code == 0, done.output
    assert sum("█" in line or "◀" in line for line in done.output.splitlines()) < 45
    assert "2 classes by mefmax" in done.output
    assert "◀ mefmax" in done.output


def test_a_split_of_one_file_is_refused(folder):
    done = run("count", folder / "train.txt", "--tokenizer", folder / "tokenizer", "--split", "valid", width=400)
    assert done.exit_code == 2
    assert "is one file, which has no splits to choose from, but split 'valid' was given. Leave it out" in done.output
