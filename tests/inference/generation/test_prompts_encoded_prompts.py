from __future__ import annotations

import pytest

from nextword.inference.generation.prompts import TextPrompt, encode_prompts, expect_room
from tests.helpers.writing_models import POSITIONS, opened_model, tokenizer


def ids(text):
    return tokenizer()(text, add_special_tokens=False)["input_ids"]


def test_a_decoder_reads_a_start_token_and_the_prompt():
    found = encode_prompts(opened_model(), [TextPrompt("The king"), TextPrompt(""), TextPrompt(source="The king")])
    assert found.pop().context == found[0].context
    start = tokenizer().bos_token_id
    assert [one.context for one in found] == [[start, *ids("The king")], [start]]
    assert [one.start for one in found] == [1, 1]


def test_an_encoder_decoder_reads_the_source_or_the_prompt():
    found = encode_prompts(opened_model("t5"), [TextPrompt("The king"), TextPrompt(source="The king")])
    assert found[0].context == found[1].context == tokenizer()("The king")["input_ids"]
    assert [one.source for one in found] == ["The king", "The king"]
    with pytest.raises(ValueError, match="encoder-decoder"):
        encode_prompts(opened_model("t5"), [TextPrompt("The king", source="The queen")])
    with pytest.raises(ValueError, match="0: the source has no tokens"):
        encode_prompts(opened_model("t5"), [TextPrompt("")])


def test_a_chat_template_is_applied_where_asked():
    opened = opened_model()
    opened.tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}:"
    try:
        prompts = [TextPrompt("The king"), TextPrompt("The king", source="The queen"), TextPrompt(source="The king")]
        found, beside_source, of_source = encode_prompts(opened, prompts, chat=True)
        assert found.context == beside_source.context == of_source.context
    finally:
        opened.tokenizer.chat_template = None
    assert found.context == ids("<user>The king:")
    assert found.start == 0
    with pytest.raises(ValueError, match=r"^chat: tokenizer"):
        encode_prompts(opened, [TextPrompt("The king")], chat=True)


def test_a_conditioned_model_needs_its_auxiliary_text():
    opened = opened_model(conditioner="dau")
    assert encode_prompts(opened, [TextPrompt("The king", auxiliary="a dragon")])
    with pytest.raises(ValueError, match="5: the model follows"):
        encode_prompts(opened, [TextPrompt("The king", id=5)])


@pytest.mark.parametrize(("head", "conditioner", "virtual"), [("softmax", None, 0), ("softmax", "prefix:3", 3)])
def test_the_longest_text_that_fits_is_written_and_one_more_token_is_refused(head, conditioner, virtual):
    opened = opened_model(head=head, conditioner=conditioner)
    prompts = [TextPrompt("a"), TextPrompt("The king " * 3, id="long")]
    encoded = encode_prompts(opened, [TextPrompt(one.prompt, auxiliary="a dragon", id=one.id) for one in prompts])
    longest, limit = max(len(one.context) for one in encoded), POSITIONS - virtual
    room = limit - longest + 1
    expect_room(opened, encoded, room)
    with pytest.raises(
        ValueError,
        match=rf"prompt long: its {longest} tokens and {room + 1} new ones are more than the model's {limit} "
        rf"positions; set max_new_tokens to at most {room}, or shorten it",
    ):
        expect_room(opened, encoded, room + 1)


def test_a_prompt_that_leaves_no_room_is_to_be_shortened():
    opened = opened_model()
    with pytest.raises(ValueError, match=rf"model's {POSITIONS} positions; shorten it$"):
        expect_room(opened, encode_prompts(opened, [TextPrompt("king" * POSITIONS)]), 1)


def test_a_head_that_looks_back_further_is_told_who_reads_a_longer_prompt():
    opened = opened_model(head="cache:long=1000")
    with pytest.raises(ValueError, match=r"nextword\.inference\.scoring\.long_text\.remember"):
        expect_room(opened, encode_prompts(opened, [TextPrompt("king" * POSITIONS)]), 1)


def test_room_of_an_encoder_and_of_its_decoder():
    opened = opened_model("bart")
    source = encode_prompts(opened, [TextPrompt(source="The king")])
    expect_room(opened, source, POSITIONS - 1)
    with pytest.raises(ValueError, match=rf"^max_new_tokens: must be at most {POSITIONS - 1}"):
        expect_room(opened, source, POSITIONS)
    with pytest.raises(ValueError, match="positions"):
        expect_room(opened, encode_prompts(opened, [TextPrompt(source="king" * POSITIONS)]), 1)
    relative = opened_model("t5")
    expect_room(relative, encode_prompts(relative, [TextPrompt(source="king" * 600)]), 600)
