"""Measures tokens per pass and speed of drafting, relative to plain decoding, prompt lookup and a bound.

Each text is generated greedily by every method in turn, so background load affects all of them equally. With
``--human`` the model is forced to generate the human text, and drafts are compared with it. ``bound`` is a pointer that
always copies from the best position in the text so far.

    python benchmarks/drafting.py --model runs/m --pairs runs/pairs/test.jsonl --texts 20
    python benchmarks/drafting.py --model runs/m --pairs runs/pairs/test.jsonl --texts 20 --human
    python benchmarks/drafting.py --model runs/mos --assistant runs/narrow --pairs runs/pairs/test.jsonl
    python benchmarks/drafting.py --size gpt2-small --head softmax+c --pairs runs/pairs/test.jsonl --human
    python benchmarks/drafting.py --model models/smollm2-135m --chat --pairs runs/drafting/code/test.jsonl
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from options import at_least, folder, method, own_model, parser, settled
from rows import append, surroundings
from shapes import GPT2, attached, backbone
from torch import Tensor
from transformers import AutoTokenizer, LogitsProcessor, LogitsProcessorList

import nextword as nw
from nextword.model.speculative_decoding.drafter import Draft
from nextword.model.speculative_decoding.speculative_decoding import LONGEST, FixedLength, LearnedLength

OWN = {False: "its own", True: "its own, no {} words twice"}
PLAIN, LOOKUP = "plain", "prompt lookup (transformers)"


class Held(LogitsProcessor):
    """Holds a model to a text: the only word that is left is the next one of it.

    Args:
        words: The text.
        begin: Words of the prompt.
    """

    def __init__(self, words: Sequence[int], begin: int) -> None:
        self.words, self.begin = words, begin

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Zero for that word, -inf for all others."""
        only = torch.full_like(scores, -torch.inf)
        only[:, self.words[min(input_ids.shape[1] - self.begin, len(self.words) - 1)]] = 0.0
        return only


class Unasked(LearnedLength):
    """Nothing is guessed: what the loop costs by itself."""

    def asks(self) -> bool:
        """Never."""
        return False


class Unused(LearnedLength):
    """Everything is guessed and nothing drafted: what guessing costs by itself."""

    def chosen(self, drafts: Sequence[Draft | None]) -> int:
        """None of the words."""
        return 0

    def asks(self) -> bool:
        """Always."""
        return True


class Passes:
    """Counts the passes of a model."""

    def __init__(self, model: Any) -> None:
        self.count = 0
        model.backbone.register_forward_pre_hook(self._one)

    def _one(self, *_: Any) -> None:
        self.count += 1


def bound(prompt: list[int], written: list[int], longest: int) -> int:
    """Passes of a pointer that always knows the best place: each gives the longest run that stands before, and a word.

    >>> bound([5, 6, 7, 8], [6, 7, 8, 9], 10)
    1
    """
    passes = done = 0
    while done < len(written):
        before = prompt + written[:done]
        runs = [run_length(before, place, written[done : done + longest]) for place in range(len(before))]
        done += max(runs) + 1
        passes += 1
    return passes


def run_length(text: list[int], place: int, words: list[int]) -> int:
    """How many of the words stand in the text from a place on."""
    count = 0
    while count < len(words) and place + count < len(text) and text[place + count] == words[count]:
        count += 1
    return count


def first_rows(path: Path, count: int) -> list[dict[str, Any]]:
    """The first rows of a file, one JSON object a line."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in islice(file, count)]


def examples(
    tokenizer: Any, path: Path, count: int, longest: int, new: int, encoder: bool = False
) -> list[tuple[list[int], list[int]]]:
    """Prompts and people's texts in tokens, as a model of pairs reads them, one with an encoder or one without."""
    rows = first_rows(path, count)
    newline = tokenizer("\n", add_special_tokens=False)["input_ids"]
    start = [tokenizer.eos_token_id]
    sides = [[tokenizer(row[name], add_special_tokens=False)["input_ids"] for name in ("source", "target")]
             for row in rows]  # fmt: skip
    if encoder:
        start, longest, newline = [], longest - 1, start
    return [(start + source[:longest] + newline, target[:new]) for source, target in sides if len(target) >= 2]


def requests(tokenizer: Any, path: Path, count: int, longest: int) -> list[tuple[list[int], list[int]]]:
    """Prompts of a chat model: each source, cut to ``longest`` tokens, as a user's message in the chat template."""
    found: list[tuple[list[int], list[int]]] = []
    for row in first_rows(path, count):
        cut = tokenizer.decode(tokenizer(row["source"], add_special_tokens=False)["input_ids"][:longest])
        message = [{"role": "user", "content": cut}]
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True)["input_ids"]
        found.append((prompt, []))
    return found


def ways(model: Any, assistant: Any = None, parts: bool = False) -> dict[str, dict[str, Any]]:
    """Arguments of ``generate``, by what a table calls them; what is learned stays from text to text."""
    found: dict[str, dict[str, Any]] = {
        PLAIN: {},
        LOOKUP: {"prompt_lookup_num_tokens": LONGEST},
        "draft=prompt": {"draft": nw.SpeculativeDecoding("prompt")},
    }
    head = model.next_word_head
    if head.reads_words or head.reads_source:
        found["draft=places"] = {"draft": nw.SpeculativeDecoding("head")}
        found[f"draft=places, always {LONGEST}"] = {"draft": nw.SpeculativeDecoding("head", FixedLength(LONGEST))}
    if assistant is not None:
        found["assistant"] = {"draft": assistant}
    if parts:
        found |= {name: {"draft": nw.SpeculativeDecoding("head", length())}
                  for name, length in (("the loop alone", Unasked), ("guesses alone", Unused))}  # fmt: skip
    return found


def measured(
    model: Any, texts: list[tuple[list[int], list[int]]], new: int, human: bool, assistant: Any = None,
    no_repeat: int = 0, parts: bool = False,
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Words, passes and seconds by way; those of the bound have no seconds."""
    passes, tried, encoder = Passes(model), ways(model, assistant, parts), model.config.is_encoder_decoder
    sums = {name: {"words": 0, "passes": 0, "seconds": 0.0} for name in [*tried, "bound"]}
    for number, (prompt, target) in enumerate(texts):
        ids, written, begin = torch.tensor([prompt]), {}, 1 if encoder else len(prompt)
        for name, arguments in _turned(tried, number):
            count, least = (len(target), len(target)) if human else (new, 0)
            rules = LogitsProcessorList([Held(target, begin)] if human else [])
            before, start = passes.count, time.perf_counter()
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=least, do_sample=False,
                logits_processor=rules, no_repeat_ngram_size=no_repeat, pad_token_id=0, **arguments,
            )  # fmt: skip
            taken = time.perf_counter() - start
            written[name] = out[0, begin:].tolist()
            if number:  # the first text warms up
                sums[name]["words"] += len(written[name])
                sums[name]["passes"] += passes.count - before
                sums[name]["seconds"] += taken
        if any(words != written[PLAIN] for words in written.values()):
            print(f"text {number}: one method generated other tokens than plain decoding")
        if number:
            sums["bound"]["words"] += len(written[PLAIN])
            sums["bound"]["passes"] += 1 + bound([*prompt, written[PLAIN][0]], written[PLAIN][1:], LONGEST)
    return sums


def _turned(tried: dict[str, Any], number: int) -> list[tuple[str, Any]]:
    """All ways, another one first each time."""
    turn = number % len(tried)
    return [*tried.items()][turn:] + [*tried.items()][:turn]


def _opened(given: Any) -> tuple[Any, Any]:
    if given.model:
        return nw.load(given.model, dtype=torch.float32), AutoTokenizer.from_pretrained(given.model)
    tokenizer = AutoTokenizer.from_pretrained(given.tokenizer) if given.tokenizer else None
    model = attached(
        backbone(given.size, given.device, given.dtype, positions=given.prompt + given.new + 8), given.head
    )
    return model.eval(), tokenizer


def _made_up(new: int) -> Callable[..., list[tuple[list[int], list[int]]]]:
    generator = torch.Generator().manual_seed(0)
    prompts = [torch.randint(5, 60, (24,), generator=generator).tolist() for _ in range(3)]
    return lambda: [(prompt, prompt[6 : 6 + new]) for prompt in prompts]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "drafting", rounds=None)
    own_model(options)
    options.add_argument(
        "--size", choices=GPT2, default="gpt2-small", help="size of a random model, if no --model is given"
    )
    options.add_argument("--head", type=method, default="softmax+c", help="head of the random model")
    options.add_argument("--tokenizer", help="folder of the random model's tokenizer")
    options.add_argument("--pairs", type=Path, help="JSON lines with source and target; without it, synthetic words")
    options.add_argument("--texts", type=at_least(2), default=20, help="number of texts; the first is a warm-up")
    options.add_argument("--prompt", type=at_least(8), default=200, help="largest number of source tokens")
    options.add_argument("--new", type=at_least(2), default=60, help="generated tokens")
    options.add_argument("--human", action="store_true", help="force the model to generate the human text")
    options.add_argument("--no-repeat", type=at_least(0), default=0, help="no_repeat_ngram_size of generate; 0: off")
    options.add_argument("--parts", action="store_true", help="also measure the cost of loop and drafts alone")
    options.add_argument("--chat", action="store_true", help="sources are requests in the tokenizer's chat template")
    options.add_argument("--assistant", type=folder, help="also draft with this smaller model of the same tokenizer")
    given = settled(options, argv, size="toy", prompt=24, new=12, texts=3)
    if given.human and given.assistant:
        options.error("--human: whatever holds the model to a text holds its assistant too; leave out --assistant")
    if given.chat and (given.human or not (given.pairs and given.model)):
        options.error("--chat: needs --model and --pairs, and the model's own texts (no --human)")
    seen = surroundings()
    torch.manual_seed(0)
    model, tokenizer = _opened(given)
    assistant = nw.load(given.assistant).eval() if given.assistant else None
    if given.pairs is None or tokenizer is None:
        texts = _made_up(given.new)()
    elif given.chat:
        texts = requests(tokenizer, given.pairs, given.texts, given.prompt)
    else:
        encoder = model.config.is_encoder_decoder
        texts = examples(tokenizer, given.pairs, given.texts, given.prompt, given.new, encoder)
    sums = measured(model, texts, given.new, given.human, assistant, given.no_repeat, given.parts)
    plain, lookup = sums[PLAIN], sums[LOOKUP]["words"] / sums[LOOKUP]["passes"]
    rows = []
    for name, sum_of in sums.items():
        rate = sum_of["words"] / sum_of["passes"]
        ratio = plain["seconds"] / sum_of["seconds"] if sum_of["seconds"] else float("nan")
        rows.append(
            {
                "model": Path(given.model).name if given.model else f"{given.size} {given.head}, random",
                "data": given.pairs.parent.name if given.pairs else "made up",
                "text": "people's" if given.human else OWN[given.no_repeat > 0].format(given.no_repeat),
                "way": name, "texts": len(texts) - 1, "words": sum_of["words"], "passes": sum_of["passes"],
                "words_a_pass": f"{rate:.3f}", "of_lookup": f"{rate / lookup:.3f}", "speed": f"{ratio:.3f}",
                "ms_a_word": f"{1000 * sum_of['seconds'] / sum_of['words']:.2f}", **seen,
            }
        )  # fmt: skip
        print(f"{name:30} {rate:6.2f} tokens per pass   {rate / lookup:5.2f} x lookup   {ratio:5.2f} x plain in speed")
    append(given.out, rows)


if __name__ == "__main__":
    main()
