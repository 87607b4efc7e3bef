"""Counts tokens per pass for several ways to choose the position to copy from, on fixed texts without generating.

The model encodes each text once. Then the passes of generation, with drafts of up to ten tokens, are counted for each
way to choose among the positions that the model's last token may have been copied from: as ``draft="head"`` does; by
the largest share; by the earliest position; by shares summed over the last tokens; without continuing after a rejected
token; and by the best of the two or three positions that such a method ranks first (as in a tree of drafts). ``bound``
always chooses the best position. Without a model, every position with the last token counts equally, as in a lookup of
tokens.

    python benchmarks/drafting_choice.py --model runs/m --pairs runs/pairs/test.jsonl --texts 60
    python benchmarks/drafting_choice.py --tokenizer runs/gpt2 --pairs runs/pairs/test.jsonl --texts 298
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from drafting import bound, examples, run_length
from options import at_least, own_model, parser, settled
from rows import append, surroundings
from transformers import AutoTokenizer

import nextword as nw
from nextword.model.speculative_decoding.drafter import CopyHeadDrafter, Decided, Draft, KnownText
from nextword.model.speculative_decoding.speculative_decoding import LONGEST

Candidate = tuple[tuple[Any, ...], Draft]
"""What a place is ranked by (words that agree, share, minus the place), and the draft from there."""

_FORGOTTEN = 0.5
"""What a share counts one word later, where shares are summed."""

WAYS: dict[str, Callable[[Candidate], Any]] = {
    "agreement, share, earliest": lambda one: one[0],
    "agreement, earliest": lambda one: (one[0][0], one[0][2]),
    "agreement, latest": lambda one: (one[0][0], -one[0][2]),
    "share": lambda one: one[0][1],
}


class Summed:
    """Shares of places, summed along the words that were written one behind the other."""

    def __init__(self) -> None:
        self.before: dict[Any, float] = {}

    def __call__(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates with sums in place of shares."""
        now = {draft.found: rank[1] for rank, draft in candidates}
        shifted = {(of, place + 1): _FORGOTTEN * share for (of, place), share in self.before.items()}
        self.before = {found: now.get(found, 0.0) + shifted.get(found, 0.0) for found in now | shifted}
        return [((rank[0], self.before[draft.found], rank[2]), draft) for rank, draft in candidates]


class Everywhere:
    """Points at all places of a word alike; what it has of a distribution is what ``CopyHeadDrafter`` asks for."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = torch.tensor(ids)

    def __getitem__(self, positions: Any) -> Everywhere:
        return self

    def token_positions(self, words: Any) -> dict[str, Any]:
        """One part of a probability for each place of the word."""
        return {"text": (self.ids[None] == words[:, None]).float()}

    def positions_in(self) -> dict[str, str]:
        """They are in the text."""
        return {"text": "text"}


def candidates_along(model: Any, prompt: list[int], written: list[int]) -> list[list[Candidate]]:
    """For each word of a text but the last, the places that it may have come from, by a model or by any (None)."""
    ids = prompt + written
    with torch.no_grad():
        read: Any = Everywhere(ids) if model is None else model.distribution(torch.tensor([ids]))
        distribution: Any = read if model is None else read.computed()
        drafter, found = CopyHeadDrafter(), []
        for count in range(1, len(written)):
            decided = Decided(distribution, torch.tensor([len(prompt) + count - 2]), [0])
            found += drafter.candidates([KnownText(prompt + written[:count])], decided, LONGEST)
    return found


def passes(
    along: list[list[Candidate]], text: tuple[list[int], list[int]], key: Callable[[Candidate], Any], tree: int,
    continues: bool,
) -> int:  # fmt: skip
    """How many passes a text takes, the one over the prompt included.

    Args:
        along: The candidates behind each word.
        text: Prompt and what is written.
        key: What a place is ranked by.
        tree: How many drafts, which begin with different words, one pass judges; the best of them counts.
        continues: Whether a draft goes on behind a refused word where there is no candidate.
    """
    prompt, written = text
    count, done, instead = 1, 1, None
    while done < len(written):
        before, known = prompt + written[:done], along[done - 1]
        drafts = [one[1] for one in sorted(known, key=key, reverse=True)]
        if continues and instead is not None and instead < len(before):
            drafts.append(Draft(before[instead : instead + LONGEST], "continued", 0, ("text", instead)))
        first = list({draft.tokens[0]: draft for draft in reversed(drafts)}.values())  # the best of each first word
        chosen = [draft for draft in drafts if draft in first][:tree]
        runs = [run_length(list(draft.tokens), 0, written[done:]) for draft in chosen]
        best = max(runs, default=0)
        instead = None
        if chosen:
            found = chosen[runs.index(best)].found
            instead = None if found is None else found[1] + best + 1
        done, count = done + best + 1, count + 1
    return count


def main(argv: Sequence[str] | None = None) -> None:
    """Counts, prints and appends."""
    options = parser(__doc__, "drafting_choice", rounds=None)
    own_model(options)
    options.add_argument("--tokenizer", help="folder of a tokenizer, if no --model is given")
    options.add_argument("--pairs", type=Path, required=True, help="JSON lines with source and target")
    options.add_argument("--texts", type=at_least(1), default=60)
    options.add_argument("--prompt", type=at_least(8), default=200, help="largest number of source tokens")
    options.add_argument("--new", type=at_least(2), default=60, help="largest number of tokens in a text")
    options.add_argument("--own", action="store_true", help="use texts that the model generates instead of human texts")
    given = settled(options, argv)
    if given.own and given.model is None:
        options.error("--own: needs --model, which writes")
    model = nw.load(given.model).eval() if given.model else None
    tokenizer = AutoTokenizer.from_pretrained(given.model or given.tokenizer)
    texts = examples(tokenizer, given.pairs, given.texts, given.prompt, given.new)
    if given.own:
        texts = [(prompt, _written(model, prompt, given.new)) for prompt, _ in texts]
    along = [candidates_along(model, *text) for text in texts]
    summed = [[change(one) for one in of] for of in along for change in [Summed()]]
    words = sum(len(written) for _, written in texts)
    tried = {(name, tree): (along, key, tree, True) for name, key in WAYS.items() for tree in (1, 2, 3)}
    tried["agreement, summed shares", 1] = (summed, WAYS["agreement, share, earliest"], 1, True)
    tried["the first, not going on behind refused words", 1] = (along, WAYS["agreement, share, earliest"], 1, False)
    totals = {way: sum(passes(of, text, *how) for of, text in zip(which, texts, strict=True))
              for way, (which, *how) in tried.items()}  # fmt: skip
    totals["bound", 1] = sum(1 + bound([*prompt, written[0]], written[1:], LONGEST) for prompt, written in texts)
    seen = surroundings()
    rows = []
    for (way, tree), total in totals.items():
        print(f"{way:46} best of {tree} {words / total:6.3f} tokens per pass")
        rows.append({
            "model": Path(given.model).name if given.model else "none", "data": given.pairs.parent.name,
            "text": "its own" if given.own else "people's", "way": way, "tree": tree, "texts": len(texts),
            "words": words, "passes": total, "words_a_pass": f"{words / total:.3f}", **seen,
        })  # fmt: skip
    append(given.out, rows)


def _written(model: Any, prompt: list[int], new: int) -> list[int]:
    ids = torch.tensor([prompt])
    settings = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "pad_token_id": 0}
    found: list[int] = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)[0, len(prompt) :].tolist()
    return found


if __name__ == "__main__":
    main()
