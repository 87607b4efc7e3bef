from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nextword.evaluation import read_samples
from nextword.evaluation.metrics.tokens import Words
from nextword.evaluation.samples import PlainText


def write(path: Path, *lines: Any) -> Path:
    file = path / "samples.jsonl"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return file


def test_lines_become_samples(tmp_path: Path) -> None:
    path = write(tmp_path, {"id": 1, "text": "it is", "reference": "it was", "model": "x"}, {"id": 2, "text": ""})
    first, second = read_samples(path, Words())
    assert (first.text, first.references, first.place) == ("it is", ["it was"], f"{path}, line 1")
    assert first.tokens.tolist() == [0, 1]
    assert second.tokens.tolist() == []


def test_names_of_fields_may_differ(tmp_path: Path) -> None:
    path = write(tmp_path, {"prediction": "a", "highlights": "b"})
    (sample,) = read_samples(path, Words(), {"text": "prediction", "references": "highlights"})
    assert (sample.text, sample.references) == ("a", ["b"])


def test_last_line_needs_no_newline_and_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"text": "a"}\r\n{"text": "b"}')
    assert [sample.text for sample in read_samples(path, Words())] == ["a", "b"]


GOOD = '{"text": "a"}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((GOOD, '{"text": '), "samples.jsonl, line 2: not JSON .Expecting value, column"),
        (('[{"text": "a"},',), "not a whole JSON list"),
        ((GOOD, "[1]"), r"line 2: must be a JSON object \(\[1\] given"),
        ((GOOD, "", GOOD), "line 2: empty line"),
        ((GOOD, '{"text": 5}'), r"line 2: 'text' must be text \(5 given"),
        (('{"token_ids": [1, "2"]}',), r"line 1: 'token_ids.1' must be a whole number \('2' given"),
        (
            ('{"log_probs": [0.1], "target_token_ids": [1, 2]}',),
            "'log_probs' must have as many entries as 'target_token_ids', 2 \\(1 given\\)",
        ),
        (
            ('{"references": ["a"], "reference_token_ids": [[1], [2]]}',),
            "'reference_token_ids' must have as many entries",
        ),
        (('{"references": ["a"], "reference": "b"}',), "reference, references: must not both be given"),
        (('{"table": {"header": ["a"], "rows": [["1", "2"]]}}',), "row 1 must have as many cells"),
        (('{"id": 3}', '{"id": 3}'), "line 2: id 3 must be unique"),
        ((), "is empty"),
        ((GOOD, '{"text": "a"'), r"line 2: not JSON \(Expecting ',' delimiter, column 13\)"),
        (('{"text": "a", "text": "b"}',), "line 1: key 'text' comes twice"),
        (
            ('{"token_ids": [9223372036854775808]}',),
            r"line 1: 'token_ids.0' must be less than 9,223,.* \(9223372036854775808 given",
        ),
        (("[" * 100_000,), "recursion"),
    ],
)
def test_faults_name_the_line(lines: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_samples(write(tmp_path, *lines), Words()))


def test_other_faults(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        list(read_samples(tmp_path / "gone.jsonl", Words()))
    with pytest.raises(ValueError, match="is a folder"):
        list(read_samples(tmp_path, Words()))
    with pytest.raises(ValueError, match="'txet'"):
        list(read_samples(write(tmp_path, GOOD), Words(), {"txet": "a"}))
    with pytest.raises(ValueError, match=r"fields=\{'text'"):
        list(read_samples(write(tmp_path, GOOD), Words(), {"text": "txt"}))
    broken = tmp_path / "latin.jsonl"
    broken.write_bytes(b'{"text": "a"}\n{"text": "\xe9"}\n')
    with pytest.raises(ValueError, match=r"latin\.jsonl, line 2: not UTF-8"):
        list(read_samples(broken, Words()))


def test_a_broken_line_is_found_when_it_is_reached(tmp_path: Path) -> None:
    reader = read_samples(write(tmp_path, GOOD, GOOD, "{"), Words())
    assert next(reader).text == "a"
    assert next(reader).text == "a"
    with pytest.raises(ValueError, match="line 3"):
        next(reader)


def test_fields_may_swap_keys_or_share_one(tmp_path: Path) -> None:
    path = write(tmp_path, {"text": "p", "gen": "g"})
    for fields in ({"prompt": "text", "text": "gen"}, {"text": "gen", "prompt": "text"}):
        (sample,) = read_samples(path, Words(), fields)
        assert (sample.prompt, sample.text) == ("p", "g")
    (sample,) = read_samples(path, Words(), {"text": "gen", "source": "gen"})
    assert (sample.text, sample.source) == ("g", "g")


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="write it to a file"):
        list(read_samples(tmp_path / "pipe", Words()))


@pytest.mark.parametrize(
    ("content", "wanted", "texts"),
    [
        ("a b\nc\n", None, ["a b", "c"]),
        ("a b\r\nc", None, ["a b", "c"]),
        ("\na b\n\n", None, ["a b"]),  # blank lines at both ends are no texts
        (" \n\na b\nc\n\n\n", None, ["a b", "c"]),
        ("a b\nc\n\n \nd\n\n", None, ["a b\nc", "d"]),
        ("a b\nc\n\nd\n", "lines", ["a b", "c", "", "d"]),
        ("a b\nc\n", "blocks", ["a b\nc"]),
        ('"quoted"\n[CLS] b\n', None, ['"quoted"', "[CLS] b"]),
        ('{"text": "a\\nb"}\n', None, ["a\nb"]),  # JSON lines, whatever the file is called
    ],
)
@pytest.mark.parametrize("name", ["mine.txt", "mine.out", "mine"])
def test_plain_text(name: str, content: str, wanted: PlainText | None, texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, newline="")
    found = list(read_samples(path, Words(), plain_text=wanted))
    assert [sample.text for sample in found] == texts


def test_plain_text_names_its_lines_and_has_no_fields(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("a\nb\n\n\nc\n")
    assert [sample.place for sample in read_samples(path, Words())] == [f"{path}, line 1", f"{path}, line 5"]
    with pytest.raises(ValueError, match=r"fields=\{'text'"):
        list(read_samples(path, Words(), {"text": "output"}))
    path.write_text("")
    with pytest.raises(ValueError, match=r"mine.txt must have"):
        list(read_samples(path, Words()))
    with pytest.raises(ValueError, match=r"rows.csv must be JSON lines"):
        list(read_samples(tmp_path / "rows.csv", Words()))


def test_references_of_another_file_stand_beside_the_texts(tmp_path: Path) -> None:
    texts, people = tmp_path / "a.txt", tmp_path / "people.txt"
    texts.write_text("a\nb\n", encoding="utf-8")
    people.write_text("c\nd\n", encoding="utf-8")
    samples = list(read_samples(texts, Words(), references=people))
    assert [(sample.text, sample.references) for sample in samples] == [("a", ["c"]), ("b", ["d"])]
    people.write_text('{"text": "c"}\n{"text": "d"}\n', encoding="utf-8")
    assert [sample.references for sample in read_samples(texts, Words(), references=people)] == [["c"], ["d"]]


def test_references_of_another_number_are_refused(tmp_path: Path) -> None:
    texts, people = tmp_path / "a.txt", tmp_path / "people.txt"
    texts.write_text("a\nb\n", encoding="utf-8")
    people.write_text("c\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"people.txt has 1 text, .*a.txt 2; "):
        list(read_samples(texts, Words(), references=people))
    people.write_text("c\nd\ne\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"people.txt has 3 texts, .*a.txt 2; "):
        list(read_samples(texts, Words(), references=people))
    people.write_text("c\nd\n\ne\nf\ng\n\nh\n", encoding="utf-8")
    cut = r"people.txt has 3 texts \(split at blank lines; plain_text='lines': one per line\), .*a.txt 2"
    with pytest.raises(ValueError, match=cut):
        list(read_samples(texts, Words(), references=people))
    with pytest.raises(ValueError, match=r"people.txt has 8 texts, .*a.txt 2"):
        list(read_samples(texts, Words(), references=people, plain_text="lines"))
    own = tmp_path / "own.jsonl"
    own.write_text('{"text": "a", "reference": "b"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="must not have references if"):
        list(read_samples(own, Words(), references=people))
    people.write_text('{"prompt": "c"}\n', encoding="utf-8")
    texts.write_text("a\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"'text'.*\(prompt given"):
        list(read_samples(texts, Words(), references=people))
