from __future__ import annotations

import json

import pytest

from nextword.inference.generation.prompts import TextPrompt, piped_prompts, read_prompts
from nextword.inference.scoring.measurement.data_files import read_texts


def written(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_each_line_of_a_text_is_a_prompt_an_empty_one_too(tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("The king\n\nOnce upon\r\n 옛날 \n", encoding="utf-8")
    assert read_prompts(path) == [
        TextPrompt("The king", id=0), TextPrompt("", id=1), TextPrompt("Once upon", id=2), TextPrompt(" 옛날 ", id=3)
    ]  # fmt: skip


def test_a_whole_text_is_one_prompt(tmp_path):
    path = tmp_path / "p.txt"
    path.write_bytes(b"The king\n\nOnce upon\r\n")
    (prompt,) = read_prompts(path, whole=True)
    assert prompt == TextPrompt("The king\n\nOnce upon\r\n")
    (scored,) = read_texts([str(path)]).read()
    assert prompt.prompt == scored.text, "the same file is the same tokens for nextword score"


def test_json_lines_have_fields(tmp_path):
    path = written(
        tmp_path / "p.jsonl",
        {"id": "a", "prompt": "The king", "auxiliary": "a summary", "reference": "slept"},
        {"id": "b", "source": "A document", "references": ["one", "two"]},
    )
    assert read_prompts(path) == [
        TextPrompt("The king", None, "a summary", ("slept",), "a"),
        TextPrompt("", "A document", None, ("one", "two"), "b"),
    ]


def test_fields_may_be_called_otherwise(tmp_path):
    path = written(tmp_path / "p.jsonl", {"question": "Who?", "sum": "s"})
    read = read_prompts(path, fields={"prompt": "question", "auxiliary": "sum"})
    assert read == [TextPrompt("Who?", None, "s", (), 0)]
    with pytest.raises(ValueError, match="'questoin'"):
        read_prompts(path, fields={"prompt": "questoin"})


def test_samples_of_an_earlier_run_are_prompts_each_once(tmp_path):
    path = written(
        tmp_path / "s.jsonl",
        {"id": 3, "prompt": "The king", "text": "slept", "token_ids": [1], "sample": 0},
        {"id": "3#1", "prompt": "The king", "text": "ate", "token_ids": [2], "sample": 1},
        {"id": 4, "prompt": "A source", "source": "A source", "text": "x", "token_ids": [2], "sample": 0},
    )
    assert read_prompts(path) == [TextPrompt("The king", id=3), TextPrompt("", "A source", id=4)]


def test_what_is_piped_is_text_or_json_lines():
    assert piped_prompts("The king\nA queen\n") == [TextPrompt("The king", id=0), TextPrompt("A queen", id=1)]
    assert piped_prompts("The king\nA queen\n", whole=True) == [TextPrompt("The king\nA queen\n")]
    assert piped_prompts('{"prompt": "The king", "id": 7}\n') == [TextPrompt("The king", id=7)]
    with pytest.raises(ValueError, match="line 2: not JSON"):
        piped_prompts('{"prompt": "The king"}\n{"pro\n')


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("content", [b"", b"\n", b"\n \n"])
def test_a_file_without_a_prompt_is_refused(tmp_path, content, whole):
    (tmp_path / "p.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"p\.txt .*is empty"):
        read_prompts(tmp_path / "p.txt", whole)


def test_a_binary_file_is_refused(tmp_path):
    (tmp_path / "p.bin").write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match=r"p\.bin, line"):
        read_prompts(tmp_path / "p.bin")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"p\.txt does not exist"):
        read_prompts(tmp_path / "p.txt")


def test_a_line_with_nothing_to_read_is_refused(tmp_path):
    path = written(tmp_path / "p.jsonl", {"prompt": "a"}, {"question": "Who?", "id": 3})
    with pytest.raises(ValueError, match="2: must have one of prompt"):
        read_prompts(path)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(half of one, \\ud83d, given"):
        TextPrompt("bad \ud83d", id=3)
    with pytest.raises(ValueError, match="characters"):
        piped_prompts("bad \udcff")
