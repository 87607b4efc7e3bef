from __future__ import annotations

import hashlib

import pytest

from nextword.runtime.corpora.articles import STORIES, story_pair
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.pairs import PairReading, Side, read_pairs

STORY = """(CNN) -- {name} went out.

He came back.

@highlight

{name} went out

@highlight

"Who cares?"

@highlight

He said "no." later on
the same day
"""


def read(path, **changes):
    reading = {"validation_share": 0.2, "test_share": 0.3, "split_field": None, "seed": 0, **changes}
    sides = {"source": Side("summary", "highlights"), "target": Side("article", "article")}
    return read_pairs(path, PairReading(**sides, **reading, other=STORIES, hashed="target"))


def folder_of(path, count):
    for number in range(count):
        (path / f"{number:03}.story").write_text(STORY.format(name=f"Jo {number}"))
    return path


def test_highlights_are_split_off_and_become_sentences():
    assert story_pair(STORY.format(name="Jo")) == Pair(
        'Jo went out. "Who cares?" He said "no." later on the same day.', "(CNN) -- Jo went out.\n\nHe came back."
    )


def test_a_mark_inside_a_line_is_text_and_empty_highlights_say_nothing():
    found = story_pair("See @highlight there.\r\n\r\n@highlight\r\n\r\n\r\n@highlight\r\n\r\nOne!\r\n")
    assert found == Pair("One!", "See @highlight there.")


def test_a_folder_is_split_by_a_hash_of_the_article(tmp_path):
    found = read(folder_of(tmp_path, 60))
    parts = [found.train, found.validation, found.test]
    assert sorted(len(part) for part in parts)[0] > 0
    assert sum(map(len, parts)) == 60
    assert found.split == ".story files by a hash of the article, 50/20/30 %"
    again = read(tmp_path, seed=1)
    assert again.test != found.test
    assert {pair.target for part in parts for pair in part} == {
        f"(CNN) -- Jo {number} went out.\n\nHe came back." for number in range(60)
    }


def test_stories_without_text_or_with_empty_highlights_are_left_out(tmp_path):
    folder_of(tmp_path, 40)
    (tmp_path / "no-text.story").write_text("\n@highlight\n\nOnly this\n")
    (tmp_path / "no-summary.story").write_text("Only that.\n\n@highlight\n\n\n")
    (tmp_path / "no-highlight.story").write_text("Only that.\n")
    (tmp_path / "nothing.story").write_text("")
    assert read(tmp_path).empty == 4


def test_lists_of_urls_say_which_part_a_story_is_in(tmp_path):
    stories = tmp_path / "cnn" / "stories"
    stories.mkdir(parents=True)
    urls = [f"http://web.archive.org/web/{number}/http://cnn.com/{number}" for number in range(5)]
    for number, url in enumerate(urls):
        name = hashlib.sha1(url.encode()).hexdigest()
        (stories / f"{name}.story").write_text(STORY.format(name=f"Jo {number}"))
    lists = tmp_path / "url_lists"
    lists.mkdir()
    for part, chosen in {"train": urls[2:], "val": urls[:1], "test": urls[1:2]}.items():
        (lists / f"all_{part}.txt").write_text("\n".join(chosen) + "\n")
    found = read(tmp_path)
    assert [pair.target[9:13] for pair in (*found.train, *found.validation, *found.test)] == [
        f"Jo {number}" for number in (2, 3, 4, 0, 1)
    ]
    assert found.split == ".story files by lists"


def test_bad_folders(tmp_path):
    with pytest.raises(ValueError, match=r"task\.data:.*does not exist"):
        read(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"task\.data:.*\.story files"):
        read(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(ValueError, match=r"\.jsonl file"):
        read(tmp_path / "a.txt")
    (tmp_path / "bad.story").write_text("An article without any.\n")
    with pytest.raises(ValueError, match=r"task\.data:.*'@highlight'"):
        read(tmp_path)
    (tmp_path / "bad.story").write_bytes(b"\xe9t\xe9\n\n@highlight\n\nx\n")
    with pytest.raises(ValueError, match=r"bad\.story' is not UTF-8 text"):
        read(tmp_path)
