from __future__ import annotations

import json

import pytest

from nextword.inference.generation.samples_files import PartialSamples

RUN = {"model": "a", "seed": 0}


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_lines_come_out_in_their_order_and_the_first_says_how_they_were_made(tmp_path):
    file = PartialSamples(tmp_path / "s.jsonl", RUN)
    file.append([(2, {"text": "c"}), (0, {"text": "a\u2028b"})])
    file.append([(1, {"text": "b\n"})])
    assert not file.path.exists()
    file.finish()
    assert lines(file.path) == [{"text": "a\u2028b", "run": RUN}, {"text": "b\n"}, {"text": "c"}]
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_file_cut_off_anywhere_goes_on_with_its_whole_lines(tmp_path):
    whole = PartialSamples(tmp_path / "s.jsonl", RUN)
    whole.append([(0, {"text": "뷁"}), (1, {"text": "b"})])
    content = whole.partial.read_bytes()
    expected = [{"text": "뷁", "run": RUN}, {"text": "b"}]
    for length in range(len(content) + 1):
        whole.partial.write_bytes(content[:length])
        again = PartialSamples(tmp_path / "s.jsonl", RUN)
        assert again.done == frozenset(range(max(0, content[:length].count(b"\n") - 1)))
        again.append([(number, {"text": text}) for number, text in enumerate("뷁b")])
        again.finish()
        assert lines(again.path) == expected
        again.path.unlink()


def test_finished_lines_are_not_written_again(tmp_path):
    file = PartialSamples(tmp_path / "s.jsonl", RUN)
    file.append([(0, {"text": "a"})])
    size = file.partial.stat().st_size
    again = PartialSamples(tmp_path / "s.jsonl", RUN)
    again.append([(0, {"text": "another"})])
    assert again.partial.stat().st_size == size
    again.finish()
    assert lines(again.path)[0]["text"] == "a"


@pytest.mark.parametrize("finished", [False, True])
def test_a_file_of_another_run_is_refused_with_the_difference(tmp_path, finished):
    file = PartialSamples(tmp_path / "s.jsonl", RUN)
    file.append([(0, {"text": "a"})])
    if finished:
        file.finish()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="0 there, 1 asked"):
        PartialSamples(tmp_path / "s.jsonl", {**RUN, "seed": 1})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("content", ["", "text\n", '{"text": "a"}\n', "[1]\n"])
def test_a_file_of_somebody_else_is_refused(tmp_path, content):
    (tmp_path / "s.jsonl").write_text(content)
    with pytest.raises(ValueError, match="nextword generate"):
        PartialSamples(tmp_path / "s.jsonl", RUN)
    assert (tmp_path / "s.jsonl").read_text() == content


def test_a_finished_file_is_left_alone(tmp_path):
    file = PartialSamples(tmp_path / "s.jsonl", RUN)
    file.append([(0, {"text": "a"})])
    file.finish()
    assert PartialSamples(tmp_path / "s.jsonl", RUN).is_finished
