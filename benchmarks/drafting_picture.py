"""Draws the drafts along one text: accepted tokens, rejected tokens, and the number of passes.

Each line of boxes is one pass. Filled boxes are accepted draft tokens, outlined boxes the model's own tokens, and
crossed-out boxes rejected draft tokens.

    python benchmarks/drafting_picture.py --model runs/m --pairs runs/pairs/test.jsonl --text 3 --out drafts.svg
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from drafting import examples
from transformers import AutoTokenizer

import nextword as nw
from nextword.results.report import template

_CHARACTER, _HEIGHT, _MARGIN, _WIDTH = 7.2, 26, 12, 860


def box(x: float, y: float, word: str, kind: str) -> str:
    """A word of a kind: accepted, own or refused."""
    width = _CHARACTER * len(word) + 8
    fill, edge, colour = {
        "accepted": (template.THEMES["again"][0], template.THEMES["again-line"][0], template.INK),
        "own": (template.PAPER, template.EDGE, template.INK),
        "refused": ("none", "none", template.EDGE),
    }[kind]
    text = word.replace("&", "&amp;").replace("<", "&lt;")
    cross = ' text-decoration="line-through"' if kind == "refused" else ""
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT - 6}" rx="3" fill="{fill}" stroke="{edge}"/>'
        f'<text x="{x + 4:.1f}" y="{y + 14}" fill="{colour}"{cross} xml:space="preserve">{text}</text>'
    )


def main() -> None:
    """Writes one text with drafts and draws them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--text", type=int, default=0, help="number of the pair")
    parser.add_argument(
        "--warm", type=int, default=8, help="number of earlier pairs, from which the draft length is learned"
    )
    parser.add_argument("--prompt", type=int, default=100)
    parser.add_argument("--new", type=int, default=48)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    model, tokenizer = nw.load(given.model).eval(), AutoTokenizer.from_pretrained(given.model)
    rows = examples(tokenizer, given.pairs, given.text + given.warm + 1, given.prompt, given.new)
    decoding, words, prompt = nw.SpeculativeDecoding("head"), [], []
    for prompt, _ in [*rows[given.text + 1 :], rows[given.text]]:
        ids = torch.tensor([prompt])
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=given.new, do_sample=False, draft=decoding
        )
        words = out[0, len(prompt) :].tolist()
    verified = {one.begin: one for one in decoding.verified}
    lines, place, y, passes = [], 0, _MARGIN, 0
    while place < len(words):
        draft, x = verified.get(place), float(_MARGIN)
        accepted = draft.accepted if draft is not None else 0
        own = words[place + accepted : place + accepted + 1]
        refused = list(draft.tokens[accepted:]) if draft is not None else []
        kinds = [("accepted", words[place : place + accepted]), ("own", own), ("refused", refused)]
        for kind, ids_of in kinds:
            for token in ids_of:
                word = tokenizer.decode([token]).replace("\n", " ").strip() or "\u00b7"
                lines.append(box(x, y, word, kind))
                x += _CHARACTER * len(word) + 14
        place, y, passes = place + accepted + len(own), y + _HEIGHT, passes + 1
    height = y + 26
    style = "font: 12px monospace"
    title = f"{len(words)} words in {passes} passes"
    body = "\n".join(lines)
    given.out.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" style="{style}">'
        f'<rect width="{_WIDTH}" height="{height}" fill="{template.PAPER}"/>\n{body}\n'
        f'<text x="{_MARGIN}" y="{y + 16}" fill="{template.SOFT}">{title}</text></svg>\n',
        encoding="utf-8",
    )
    print(title)


if __name__ == "__main__":
    main()
