from __future__ import annotations

import json

import pytest

from nextword.runtime.corpora.gap_sentences import GapConfig, Pair
from nextword.runtime.corpora.pairs import PairReading, Side, gap_texts, leaks, read_pairs, sample

DEFAULTS = {
    "source": Side("source", "source"),
    "target": Side("target", "target"),
    "split_field": None,
    "validation_share": 0.1,
    "test_share": 0.2,
    "other": gap_texts(GapConfig()),
    "seed": 0,
}


def read(path, **changes):
    return read_pairs(path, PairReading(**{**DEFAULTS, **changes}))


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    return path


def rows(count, begin=0):
    return [{"source": f"source {number}", "target": f"target {number}"} for number in range(begin, begin + count)]


def pairs(count, begin=0):
    return [Pair(row["source"], row["target"]) for row in rows(count, begin)]


def test_a_folder_with_three_files(tmp_path):
    write(tmp_path / "train.jsonl", rows(3))
    write(tmp_path / "val.jsonl", [*rows(1, 3), {"source": " ", "target": "x"}])
    write(tmp_path / "test.jsonl", rows(2, 4))
    found = read(tmp_path)
    assert (found.train, found.validation, found.test) == (pairs(3), pairs(1, 3), pairs(2, 4))
    assert (found.split, found.empty, found.source) == ("files", 1, tmp_path.name)


def test_one_file_is_split_by_a_hash_of_the_source(tmp_path):
    found = read(write(tmp_path / "all.jsonl", rows(2000)))
    assert len(found.train) + len(found.validation) + len(found.test) == 2000
    assert len(found.validation) == pytest.approx(200, abs=50)
    assert len(found.test) == pytest.approx(400, abs=70)
    assert found.split == "one file by a hash of the source, 70/10/20 %"
    # the same pair stays in its part whatever stands around it, and pairs with one source stay together
    half = read(write(tmp_path / "half.jsonl", [*rows(1000, 1000), *rows(1000, 1000)]))
    assert set(half.test) == set(found.test) & set(pairs(1000, 1000))
    assert len(half.test) == 2 * len(set(half.test))
    assert set(read(tmp_path / "all.jsonl", seed=1).test) != set(found.test)


def test_pairs_that_share_the_hashed_side_stay_together(tmp_path):
    shared = [{"source": f"source {number}", "target": f"target {number % 20}"} for number in range(200)]
    found = read(write(tmp_path / "all.jsonl", shared), hashed="target")
    targets = [{pair.target for pair in part} for part in (found.train, found.validation, found.test)]
    assert sum(map(len, targets)) == len(set.union(*targets)) == 20
    assert found.split == "one file by a hash of the target, 70/10/20 %"


def test_leaks_are_named_after_the_sides(tmp_path):
    reading = PairReading(**{**DEFAULTS, "source": Side("summary", "summary")})
    assert leaks(pairs(5), [*pairs(2, 4), Pair("new", "target 0")], "leak", reading) == {
        "leak_summaries": 1,
        "leak_targets": 2,
    }


def test_one_file_split_by_a_field(tmp_path):
    parts = ["train", "dev", "test", "Train"]
    path = write(tmp_path / "x.jsonl", [{**row, "part": part} for row, part in zip(rows(4), parts, strict=True)])
    found = read(path, split_field="part")
    assert (found.train, found.validation, found.test) == ([*pairs(1), *pairs(1, 3)], pairs(1, 1), pairs(1, 2))
    with pytest.raises(ValueError, match="'source'"):
        read(path, split_field="source")


def test_plain_text_becomes_gap_sentences(tmp_path):
    line = "A dog ran. A cat saw the dog. Cat sat.\n"
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text(line)
    assert read(tmp_path).test == [Pair("A dog ran. <mask> Cat sat.", "A cat saw the dog.")]
    one = tmp_path / "one.txt"
    one.write_text(line * 40)
    assert [len(part) for part in (read(one).train, read(one).validation, read(one).test)] == [36, 2, 2]


def test_the_checksum_is_of_the_pairs(tmp_path):
    one = read(write(tmp_path / "a.jsonl", rows(100)))
    same = read(write(tmp_path / "b.jsonl", [{**row, "id": 1} for row in rows(100)]))
    other = read(write(tmp_path / "c.jsonl", [*rows(99), {"source": "source 99", "target": "other"}]))
    assert one.sha256 == same.sha256 != other.sha256


def test_samples_keep_their_order():
    chosen = sample(pairs(50), 10, seed=3)
    assert chosen == sample(pairs(50), 10, seed=3) != sample(pairs(50), 10, seed=4)
    assert chosen == sorted(chosen, key=pairs(50).index)
    assert sample(pairs(5), 9, 0) == sample(pairs(5), None, 0) == pairs(5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'source': 1}", r"line 2: not JSON \(.*column 2\); each line is one JSON object"),
        ('{"source": "a", "tar', "line 2: not JSON"),
        ("[1, 2]", r"line 2: must be a JSON object \(\[1, 2\] given"),
        (
            '{"document": "a", "summary": "b"}',
            r"line 2: no field 'source'; its fields are document, summary\. Choose with task\.source_field",
        ),
        ('{"source": "a"}', r"line 2: no field 'target'; its fields are source\. Choose with task\.target_field"),
        ('{"source": "a", "target": ["b"]}', r"line 2: field 'target' must be text \(\[\"b\"\] given"),
        ('{"source": null, "target": "b"}', r"line 2: field 'source' must be text \(null given"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = write(tmp_path / "pairs.jsonl", rows(1))
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(ValueError, match=rf"task\.data: '.*pairs\.jsonl', {message}"):
        read(path)


def test_missing_and_empty_parts(tmp_path):
    with pytest.raises(ValueError, match=r"'.*nowhere' does not exist.*train\.jsonl.*train\.txt"):
        read(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="validation"):
        read(write(tmp_path / "one.jsonl", rows(1)))
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ValueError, match="no train text in"):
        read(folder)
    write(folder / "train.jsonl", rows(3))
    with pytest.raises(ValueError, match=r"validation\.jsonl"):
        read(folder)
    (tmp_path / "latin.jsonl").write_bytes(b'{"source": "\xe9"}')
    with pytest.raises(ValueError, match=r"latin\.jsonl', line 1: not UTF-8 text"):
        read(tmp_path / "latin.jsonl")
    short = tmp_path / "short.txt"
    short.write_text("One sentence.\n" * 40)
    with pytest.raises(ValueError, match=r"gives no train pairs.*task\.gaps\.min_sentences"):
        read(short)


FORMS = {"source": Side("source", None), "target": Side("target", None)}


def test_a_data_set_is_recognised_and_split_by_the_field_that_it_has(tmp_path):
    lines = [
        {"split": part, "article": f"A{number}", "highlights": f"H{number}", "source": "where it is from"}
        for number, part in enumerate(["train", "val", "test", "train"])
    ]
    found = read(write(tmp_path / "news.jsonl", lines), **FORMS)
    assert found.train == [Pair("A0", "H0"), Pair("A3", "H3")]
    assert found.split == "one file by its field 'split'"


def test_several_answers_are_references_of_one_pair(tmp_path):
    for part in ("train", "dev"):
        write(tmp_path / f"dialogsum.{part}.jsonl", [{"dialogue": part, "summary": "one"}])
    write(tmp_path / "dialogsum.test.jsonl", [{"dialogue": "d", "summary1": "a", "summary2": " ", "summary3": "c"}])
    found = read(tmp_path, **FORMS)
    assert found.test == [Pair("d", "a", ("c",))]
    assert found.test[0].references == ("a", "c")
    write(tmp_path / "dialogsum.test.jsonl", [{"dialogue": "d", "summary1": "a", "summary3": "x"}])
    assert read(tmp_path, **FORMS).sha256 != found.sha256


def test_sentences_of_a_summary_are_one_text(tmp_path):
    lines = [{"text": f"s{number}", "summary": ["One.", "Two."]} for number in range(30)]
    found = read(write(tmp_path / "paragraphs.jsonl", lines), **FORMS)
    assert {pair.references for pair in found.train} == {("One. Two.",)}


def test_a_later_row_of_another_form_is_named(tmp_path):
    path = write(tmp_path / "x.jsonl", [{"document": "a", "summary": "b"}, {"document": "a", "highlights": "b"}])
    with pytest.raises(ValueError, match="'summary'"):
        read(path, **FORMS)


def test_a_folder_of_json_lists(tmp_path):
    for part in ("train", "val", "test"):
        (tmp_path / f"{part}.json").write_text(json.dumps([{"id": "1", "dialogue": part, "summary": "b"}]))
    assert read(tmp_path, **FORMS).validation == [Pair("val", "b")]
