from __future__ import annotations

import copy
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from nextword.inference.datastore import remembering
from nextword.inference.generation.generation_passes import GenerationSettings
from nextword.inference.generation.generation_run import GenerationRun, generated_texts
from nextword.inference.generation.generator import length_batches, rows_of
from nextword.inference.generation.prompts import TextPrompt
from tests.helpers.counted import counts_file
from tests.helpers.writing_models import LOUD_CACHE, opened_model, tokenizer

WORDS = ["The king", "Once upon a time there was a", "a", "", "and the queen met the mayor", "The king", "옛날"]
PROMPTS = [TextPrompt(text, source=None, auxiliary=f"a dragon {text}", id=place) for place, text in enumerate(WORDS)]
SOURCES = [TextPrompt(source=f"{text} dragon", id=place) for place, text in enumerate(WORDS)]
F2 = {"head": "f2", "counts": counts_file()}


def texts(opened, prompts=PROMPTS, **settings):
    """Token ids by the prompt's id and sample."""
    asked = GenerationSettings.model_validate({"max_new_tokens": 9, **settings})
    run = GenerationRun.planned(opened, prompts, asked)
    return {(text.row.prompt.example.id, text.row.sample): text.token_ids for _, text in generated_texts(run)}


def greedy(opened, prompt, length):
    """Token by token, without a cache and in a row of its own."""
    model, ids = opened.model, tokenizer()
    found, auxiliary = [], opened.auxiliary_tokenizer
    inputs = dict(auxiliary([prompt.auxiliary])) if auxiliary is not None else {}
    start = [ids.eos_token_id]
    while len(found) < length:
        if opened.has_encoder:
            decoder = torch.tensor([[model.config.decoder_start_token_id, *found]])
            row = {"input_ids": torch.tensor([ids(prompt.source)["input_ids"]]), "decoder_input_ids": decoder}
        else:
            before = [*start, *ids(prompt.prompt, add_special_tokens=False)["input_ids"]]
            row = {"input_ids": torch.tensor([[*before, *found]])}
        token = int(model.distribution(**row, **inputs).log_probs()[-1].argmax())
        if token == ids.eos_token_id:
            break
        found.append(token)
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("family", "head", "conditioner"),
    [
        ("gpt2", "softmax", None), ("gpt2", LOUD_CACHE, None), ("gpt2", "softmax+ce", "dau"),
        ("gpt2", "softmax", "prefix:3"), ("t5", "pg", None), ("bart", "softmax", None),
    ],
)  # fmt: skip
@torch.no_grad()
def test_greedy_by_hand(family, head, conditioner):
    opened = opened_model(family, head, conditioner)
    prompts = SOURCES if opened.has_encoder else PROMPTS
    found = texts(opened, prompts, decodings=["greedy"], batch_size=3)
    assert found == {(prompt.id, 0): greedy(opened, prompt, 9) for prompt in prompts}
    assert len({tuple(ids) for ids in found.values()}) > 3


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "t5"])
@pytest.mark.parametrize("decoding", ["sample", "top-k:5", "top-p:0.8,1.3"])
def test_a_text_depends_on_seed_prompt_and_sample_alone(family, decoding):
    opened = opened_model(family, "cache")
    prompts = SOURCES if family == "t5" else PROMPTS
    whole = texts(opened, prompts, decodings=[decoding], samples=3, seeds=[4], batch_size=4)
    assert len(whole) == 21
    assert len({tuple(ids) for ids in whole.values()}) > 15
    for batch_size in (1, 21):
        assert texts(opened, prompts, decodings=[decoding], samples=3, seeds=[4], batch_size=batch_size) == whole
    # the two that are equal draw in the order in which they come
    others = [one for one in prompts if one.id not in (0, 5)]
    random.Random(0).shuffle(others)
    fewer = texts(opened, others[:3], decodings=[decoding], samples=2, seeds=[4], batch_size=4)
    assert fewer == {key: whole[key] for key in fewer}
    longer = texts(opened, prompts, decodings=[decoding], samples=3, seeds=[4], max_new_tokens=12)
    assert {key: ids[:9] for key, ids in longer.items()} == whole
    assert texts(opened, prompts, decodings=[decoding], samples=3, seeds=[5]) != whole


def test_what_is_drawn_is_the_model_s_distribution():
    opened, count = opened_model(head="cache"), 3000
    found = texts(opened, [TextPrompt("The king")], decodings=["top-k:4,1.5"], samples=count, max_new_tokens=1,
                  batch_size=1000)  # fmt: skip
    seen = Counter(ids[0] if ids else tokenizer().eos_token_id for ids in found.values())
    context = torch.tensor([[tokenizer().eos_token_id, *tokenizer()("The king")["input_ids"]]])
    with torch.no_grad():
        best = opened.model.distribution(context).log_probs()[-1].topk(4)
    probs = (best.values / 1.5).softmax(-1)
    expected = dict(zip(best.indices.tolist(), (count * probs).tolist(), strict=True))
    assert set(seen) <= set(expected)
    # chi-square with 3 degrees of freedom: 16.3 is passed by chance once in a thousand
    assert sum((seen[token] - value) ** 2 / value for token, value in expected.items()) < 16.3


@pytest.mark.parametrize("decodings", [["beam:3"], ["greedy"]])
@pytest.mark.parametrize("arguments", [{}, {"repetition_penalty": 3.0}, {"no_repeat_ngram_size": 1}])
def test_it_writes_what_generate_writes(decodings, arguments):
    opened = opened_model(head=LOUD_CACHE)
    found = texts(opened, PROMPTS[:1], decodings=decodings, arguments=arguments)
    ids = torch.tensor([[tokenizer().eos_token_id, *tokenizer()("The king")["input_ids"]]])
    beams = 3 if decodings == ["beam:3"] else 1
    whole = opened.model.generate(ids, max_new_tokens=9, num_beams=beams, **arguments)[0, ids.shape[1] :].tolist()
    end = tokenizer().eos_token_id
    assert found[0, 0] == (whole[: whole.index(end)] if end in whole else whole)


def test_the_model_s_own_settings_count_and_are_left_alone():
    opened = opened_model(head=LOUD_CACHE)
    before = texts(opened, decodings=["greedy"])
    opened.model.generation_config.no_repeat_ngram_size = 1
    settings = copy.deepcopy(opened.model.generation_config.to_dict())
    assert texts(opened, decodings=["greedy"]) != before
    assert opened.model.generation_config.to_dict() == settings
    assert not opened.model.next_word_head._forward_hooks


def test_drawing_leaves_torch_s_own_numbers_alone():
    opened = opened_model()
    before = torch.random.get_rng_state()
    texts(opened, decodings=["sample"], arguments={"num_beams": 2})
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("head", "settings"),
    [
        (F2, {"decodings": ["sample"]}),
        ("softmax", {"decodings": ["sample"], "arguments": {"num_beams": 3}}),
        ("softmax", {"decodings": ["sample"], "arguments": {"prompt_lookup_num_tokens": 3}}),
    ],
)
def test_what_torch_draws_is_the_same_for_the_same_batches(head, settings):
    opened = opened_model(head=head)
    first = texts(opened, **settings, batch_size=3)
    torch.rand(5)
    assert texts(opened, **settings, batch_size=3) == first
    assert texts(opened, **settings, batch_size=3, seeds=[1]) != first


def test_stop_strings_end_a_text_at_the_token_that_completes_them():
    opened = opened_model(head=LOUD_CACHE)
    free = texts(opened, decodings=["sample"], arguments={"eos_token_id": None})
    longest = tokenizer().decode(free[1, 0])
    stop = next(longest[at : at + 2] for at in range(3, len(longest)) if longest[at : at + 2].isascii())
    found = texts(opened, decodings=["sample"], stop=[stop], arguments={"eos_token_id": None})
    stopped = 0
    for key, ids in free.items():
        ends = [count for count in range(1, len(ids) + 1) if stop in tokenizer().decode(ids[:count])]
        stopped += bool(ends)
        assert found[key] == (ids[: ends[0]] if ends else ids)
    assert 0 < stopped < len(free)


@pytest.mark.parametrize("draft", [None, "prompt"])
def test_a_stop_that_began_in_the_prompt_ends_nothing(draft):
    opened = opened_model(head=LOUD_CACHE)
    settings = {"decodings": ["greedy"], "arguments": {"eos_token_id": None}, "draft": draft}
    prompts = [TextPrompt(f"{text}.", id=number) for number, text in enumerate(["the king met", "the mayor", "a"])]
    free = texts(opened, prompts, **settings)
    tried = 0
    for prompt in prompts:
        ids = free[prompt.id, 0]
        stop = prompt.prompt + tokenizer().decode(ids[:1])
        if stop.isascii() and stop not in tokenizer().decode(ids):
            tried += 1
            assert texts(opened, prompts, stop=[stop], **settings)[prompt.id, 0] == ids
    assert tried


def test_texts_have_at_least_the_least_tokens():
    opened = opened_model()
    opened.model.generation_config.eos_token_id = list(range(2, 290))
    assert min(map(len, texts(opened, decodings=["sample"]).values())) < 4
    assert min(map(len, texts(opened, decodings=["sample"], min_new_tokens=4).values())) >= 4


def test_a_model_without_padding_and_end_tokens_writes_whole_texts():
    opened = opened_model()
    for name in ("pad_token_id", "eos_token_id"):
        setattr(opened.model.generation_config, name, None)
    assert {len(ids) for ids in texts(opened, decodings=["sample"], batch_size=3).values()} == {9}


def test_an_argument_of_the_wrong_kind_is_said_to_be_one():
    with pytest.raises(ValueError, match="top_k"):
        texts(opened_model(), decodings=["sample"], arguments={"top_k": "abc"})


def test_batches_have_texts_of_like_length_the_longest_first():
    run = GenerationRun.planned(opened_model(), PROMPTS, GenerationSettings(max_new_tokens=3))
    rows = rows_of(run.encoded, replace(run.passes[0], samples=2))
    batches = length_batches(rows, 4)
    lengths = [len(row.prompt.context) for batch in batches for row in batch]
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(row.number for batch in batches for row in batch) == list(range(14))
    assert [len(batch) for batch in batches] == [4, 4, 4, 2]


@pytest.mark.few(1)
@pytest.mark.parametrize("decoding", ["greedy", "sample", "top-p:0.8"])
@pytest.mark.parametrize(("family", "head"), [("gpt2", LOUD_CACHE), ("t5", "pg"), ("bart", "ps")])
def test_drafts_write_the_same_texts(family, head, decoding):
    """Drawn texts too: every word has a random number of its own, however many words a pass gives."""
    opened = opened_model(family, head)
    prompts = PROMPTS if family == "gpt2" else SOURCES
    asked = {"decodings": [decoding], "samples": 1 if decoding == "greedy" else 2}
    plain = texts(opened, prompts, **asked)
    assert texts(opened, prompts, draft="head", batch_size=3, **asked) == plain
    assert texts(opened, prompts, draft="prompt", **asked) == plain


def test_draft_that_cannot_be_is_refused_before_anything_is_written():
    with pytest.raises(ValueError, match=r"^draft:.*search or sampling"):
        texts(opened_model(), draft="prompt", decodings=["beam:2"])
    with pytest.raises(ValueError, match="needs a head that copies"):
        texts(opened_model(), draft="head")
    with pytest.raises(ValueError, match="Did you mean 'prompt'"):
        texts(opened_model(), draft="promt")


def test_what_is_finished_can_be_retrieved_by_what_follows():
    """Each text is what the model writes with a store of those before it, or of their last two tokens."""
    opened = opened_model(head="knn:k=2,weight=0.9,temperature=0.1")
    prompts = [TextPrompt(text, id=place) for place, text in enumerate(["a", "The king", "The king", "the queen met"])]
    for most in (1000, 2):
        found = texts(opened, prompts, decodings=["greedy"], remember=most, batch_size=4)
        assert opened.model.next_word_head.recent is None, "it has what it had before"
        with remembering(opened, most) as grow:
            for prompt in prompts:
                ids = greedy(opened, prompt, 9)
                assert found[prompt.id, 0] == ids
                read = tokenizer()(prompt.prompt, add_special_tokens=False)["input_ids"]
                grow([tokenizer().eos_token_id, *read, *ids])
    alone = texts(opened, prompts, decodings=["greedy"])
    assert alone[1, 0] == alone[2, 0] != found[2, 0]


@pytest.mark.parametrize(
    ("family", "head", "said"),
    [("gpt2", "cache", r"model: must have the head knn \('cache' given\)"), ("t5", "knn", "must be decoder-only")],
)
def test_what_cannot_grow_is_refused_before_anything_is_written(family, head, said):
    with pytest.raises(ValueError, match=said):
        texts(opened_model(family, head), SOURCES if family == "t5" else PROMPTS, remember=9)


@pytest.mark.parametrize(
    ("head", "settings"),
    [
        ("softmax", {"decodings": ["greedy"]}),
        ("cache", {"decodings": ["top-k:3"]}),
        (F2, {"decodings": ["sample"]}),
        ("softmax", {"decodings": ["beam:2"]}),
        ("cache", {"decodings": ["greedy"], "draft": "head"}),
        ("softmax", {"decodings": ["sample"], "draft": "prompt"}),
        ("softmax", {"decodings": ["greedy"], "arguments": {"prompt_lookup_num_tokens": 3}}),
    ],
)
def test_a_model_that_diverged_writes_nothing(head, settings):
    opened = opened_model(head=head)
    with torch.no_grad():
        opened.model.get_input_embeddings().weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="nan: the weights"):
        texts(opened, **settings)


@pytest.mark.parametrize("settings", [{}, {"draft": "prompt"}])
def test_scores_that_overflow_later_are_said_to_do_so(settings):
    opened, calls = opened_model(), []

    def overflow(head, inputs, distribution):
        calls.append(1)
        states = distribution.states if len(calls) < 3 else distribution.states * nan
        return type(distribution)(distribution.vocabulary, states)

    nan = float("nan")
    opened.model.next_word_head.register_forward_hook(overflow)
    with pytest.raises(ValueError, match=r"dtype.float32"):
        texts(opened, decodings=["greedy"], arguments={"eos_token_id": None}, **settings)
