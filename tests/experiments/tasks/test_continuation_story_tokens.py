from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from nextword.experiments.tasks.continuation import story_ids, story_prompts, story_stream
from nextword.experiments.tasks.tokenizers import word_tokenizer

STORIES = ["a b c d", "e f", "a é b"]


def tokenizer(start: bool = False) -> PreTrainedTokenizerFast:
    """Of words; with a token of its own for the start, or with one that starts and ends."""
    made = word_tokenizer(["a b c d e f é <s>"])
    if start:
        made.bos_token = "a"
    return made


def test_one_token_starts_and_ends_stories() -> None:
    words = tokenizer()
    end, ids = words.eos_token_id, words.convert_tokens_to_ids
    assert story_ids(words, STORIES) == [
        end, *ids(["a", "b", "c", "d"]), end, *ids(["e", "f"]), end, *ids(["a", "é", "b"]), end,
    ]  # fmt: skip


def test_a_start_token_of_its_own_stands_before_every_story() -> None:
    words = tokenizer(start=True)
    end, ids = words.eos_token_id, words.convert_tokens_to_ids
    start = ids("a")
    assert story_ids(words, ["b c", "d"]) == [start, *ids(["b", "c"]), end, start, *ids(["d"]), end]


@pytest.mark.parametrize("start", [False, True])
def test_the_stream_has_the_same_tokens_and_the_bytes_of_the_stories(start: bool) -> None:
    words = tokenizer(start)
    stream, ids = story_stream(words, STORIES, None), story_ids(words, STORIES)
    assert stream.ids.tolist() == ids
    assert len(stream.text_bytes) == len(ids) - 1
    assert stream.text_bytes.sum() == sum(len(story.encode()) for story in STORIES)
    between = [
        covered for token, covered in zip(ids[1:], stream.text_bytes, strict=True) if token == words.eos_token_id
    ]
    assert between == [0, 0, 0]
    for limit in range(1, len(ids)):
        part = story_stream(words, STORIES, limit)
        assert part.ids.tolist() == ids[: limit + 1]
        assert part.text_bytes.tolist() == stream.text_bytes[:limit].tolist()


def test_no_more_stories_are_read_than_are_needed() -> None:
    words, read = tokenizer(), []

    def told() -> object:
        for story in STORIES:
            read.append(story)
            yield story

    story_stream(words, told(), 4)
    assert read == STORIES[:1]


def test_prompts_and_what_people_wrote_after_them() -> None:
    words = tokenizer()
    end, ids = words.eos_token_id, words.convert_tokens_to_ids
    first, other = story_prompts(words, STORIES, count=5, prefix=2, longest=1)
    assert (first.context, first.target, first.start, first.number) == ([end, *ids(["a", "b"])], ids(["c"]), 1, 0)
    # "e f" is a prompt and nothing more; the third story ends within the target
    assert (other.context, other.target, other.number) == ([end, *ids(["a", "é"])], [*ids(["b"]), end], 1)
    assert (first.target_bytes, other.target_bytes) == (2, 2)
    (whole,) = story_prompts(words, STORIES, count=1, prefix=2, longest=9)
    assert whole.target == [*ids(["c", "d"]), end]
    with pytest.raises(ValueError, match=r"task\.generation\.prefix:.*\(4 tokens given"):
        story_prompts(words, STORIES, count=1, prefix=4, longest=9)
