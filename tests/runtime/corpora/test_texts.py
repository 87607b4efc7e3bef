from __future__ import annotations

from pathlib import Path

import pytest

from nextword.runtime.corpora.texts import read_parts


def test_folder(tmp_path: Path) -> None:
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_bytes(f"{name} Ünicode\r\n".encode())
    parts = read_parts(tmp_path)
    assert (parts.train, parts.validation, parts.test) == tuple(
        f"{name}.txt Ünicode\r\n" for name in ("train", "valid", "test")
    )
    assert parts.split == "files"


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_bytes(f"\ufeff{name}\ufeff\r\n".encode())
    assert read_parts(tmp_path).test == "test.txt\ufeff\r\n"


def test_single_file_is_cut_by_line(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    lines = [f"line {number}\n" for number in range(100)]
    path.write_text("".join(lines))
    parts = read_parts(path)
    assert parts.train == "".join(lines[:90])
    assert parts.validation == "".join(lines[90:95])
    assert parts.test == "".join(lines[95:])


def test_a_corpus_of_one_line_is_cut_between_words(tmp_path: Path) -> None:
    path = tmp_path / "text8"
    text = " anarchism originated as a term of abuse" * 50_000
    path.write_text(text)
    parts = read_parts(path)
    assert parts.train + parts.validation + parts.test == text
    assert len(parts.train) / len(text) == pytest.approx(0.9, abs=0.04)
    assert len(parts.test) / len(text) == pytest.approx(0.05, abs=0.04)
    assert parts.validation[0] == parts.test[0] == " "
    text = "a\fb\n" * 30  # a form feed ends a line here
    path.write_text(text)
    assert read_parts(path).train == text[: 27 * 4]


def test_checksum_follows_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n" * 100)
    one = read_parts(path).sha256
    path.write_text("a\n" * 99 + "b\n")
    assert read_parts(path).sha256 != one


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file, or a folder"):
        read_parts(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"training.txt"):
        read_parts(tmp_path)
    (tmp_path / "train.txt").write_text("x")
    with pytest.raises(ValueError, match=r"no validation text in"):
        read_parts(tmp_path)
    (tmp_path / "valid.txt").write_text(" \n")
    with pytest.raises(ValueError, match=r"'.*valid.txt' is empty"):
        read_parts(tmp_path)
    (tmp_path / "few.txt").write_text("one\ntwo\n")
    with pytest.raises(ValueError, match="validation"):
        read_parts(tmp_path / "few.txt")
    (tmp_path / "binary.txt").write_bytes(b"ab\xff")
    with pytest.raises(ValueError, match=r"UTF-8 text \(byte"):
        read_parts(tmp_path / "binary.txt")


ROWS = [f'review "{number}' for number in range(40)]


def table(path: Path, rows: list[str] = ROWS) -> Path:
    path.write_text("id\treview\n" + "".join(f"{n}\t{row}\n" for n, row in enumerate(rows)), encoding="utf-8")
    return path


def test_tables_by_part(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        table(tmp_path / f"raw_{part}.tsv", [f'{part} "quoted', "second"])
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    parts = read_parts(tmp_path, text_column="review")
    assert parts.train == 'train "quoted\nsecond\n'
    assert (parts.validation, parts.test) == ('valid "quoted\nsecond\n', 'test "quoted\nsecond\n')
    assert (parts.source, parts.split) == (tmp_path.name, "files, column 'review'")
    with pytest.raises(ValueError, match=r"task.data: 'raw_train.tsv'"):
        read_parts(tmp_path)
    (tmp_path / "raw_valid.tsv").unlink()
    with pytest.raises(ValueError, match=r"task.data:.*validation"):
        read_parts(tmp_path, text_column="review")


def test_files_by_name(tmp_path: Path) -> None:
    names = {"train": "one.tsv", "valid": "two.tsv", "test": "three.txt"}
    table(tmp_path / "one.tsv", ["a"])
    table(tmp_path / "two.tsv", ["b"])
    (tmp_path / "three.txt").write_text("c\r\n", newline="")
    parts = read_parts(tmp_path, text_column="review", files=names)
    assert (parts.train, parts.validation, parts.test) == ("a\n", "b\n", "c\r\n")
    with pytest.raises(ValueError, match=r"task.data:.*'gone.tsv'"):
        read_parts(tmp_path, files={**names, "test": "gone.tsv"})


def test_a_single_table_is_cut_by_row(tmp_path: Path) -> None:
    parts = read_parts(table(tmp_path / "rows.tsv"), text_column="review")
    assert parts.train == "".join(f"{row}\n" for row in ROWS[:36])
    assert parts.validation + parts.test == "".join(f"{row}\n" for row in ROWS[36:])
    assert "column 'review'" in parts.split


def test_text_files_win_over_tables(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text(f"{name}\n")
        table(tmp_path / f"{name}.tsv")
    assert read_parts(tmp_path).train == "train\n"


def test_a_folder_laid_out_as_on_the_hub(tmp_path: Path) -> None:
    from datasets import Dataset

    folder = tmp_path / "owner" / "reviews"
    lines = ["---\nconfigs:\n- config_name: raw\n  data_files:\n"]
    for split in ("train", "validation", "test"):
        (folder / "raw").mkdir(parents=True, exist_ok=True)
        # rows of such sets may have their line end, and empty lines may have none
        Dataset.from_dict({"text": [f" {split} \n", "", "end"]}).to_parquet(folder / "raw" / f"{split}-0.parquet")
        lines.append(f"  - split: {split}\n    path: raw/{split}-*.parquet\n")
    (folder / "README.md").write_text("".join([*lines, "---\n"]))
    for name in (str(folder), f"{folder}:raw"):
        parts = read_parts(name)
        assert (parts.train, parts.validation) == (" train \n\nend\n", " validation \n\nend\n")
        assert parts.split == "splits, column 'text'"
    with pytest.raises(ValueError, match="could be read"):
        read_parts(f"{folder}:other")


def test_names_of_the_hub_are_looked_up_but_not_missing_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from datasets import Dataset

    asked = []

    def load(name: str, config: str | None, streaming: bool) -> dict[str, Dataset]:
        asked.append((name, config))
        return {"train": Dataset.from_dict({"text": ["a"]}), "validation": Dataset.from_dict({"text": ["b"]})}

    monkeypatch.setattr("datasets.load_dataset", load)
    with pytest.raises(ValueError, match="'owner/set:small'"):
        read_parts("owner/set:small")
    assert asked == [("owner/set", "small")]
    for missing in ("data/gone.txt", "../gone", "gone.tsv"):
        with pytest.raises(ValueError, match=rf"task.data: '{missing}' does not exist. Give a text file, or a folder"):
            read_parts(missing)
    assert len(asked) == 1
