"""Traces of a made-up model: words counted in the text itself, mixed with a cache that copies words seen before.

Its numbers are those of a real distribution: shares add up, ranks are right, places hold the token they explain.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import numpy as np

from nextword.results.records.token_trace import (
    Candidates,
    Role,
    StrongestPositions,
    TracedModel,
    TracedText,
    TracedTokens,
    TraceRecord,
)

STORY = (
    "The Tale of the Quiet Mill\n\n"
    "Mara had kept the mill at Oster for eleven winters, and in all that time the wheel had never stopped. "
    "Then, on the first morning of March, it stopped. Mara went down to the water with a lamp and found nothing: "
    "no branch, no stone, no ice. The wheel was simply still.\n\n"
    "“It is tired,” said Tomas, who sold rope in the market at Oster and had opinions on most things. "
    "“Wheels do not get tired,” said Mara. “People get tired. Wheels break.” But the wheel had not broken, and Tomas "
    "was too polite to say so.\n\n"
    "That night Mara slept beside the wheel with the lamp turned low. Towards morning the water spoke. It spoke in the "
    "voice of her grandmother, who had kept the mill before her: turn it once with your own hands, the water said, and "
    "it will remember. So Mara put her hands on the wet wood of the wheel and pushed. It was heavier than anything she "
    "had ever moved. It moved.\n\n"
    "By noon the mill at Oster was grinding again, and Tomas told everybody in the market that he had known it."
)
SUMMARY = "A wheel stops at the mill of Oster. Mara turns the wheel with her own hands, and the mill remembers."

_PIECE = re.compile(r"</?\w[^>\n]*>|\n| ?[\w’]+| ?[^\w\s]|\s")


def pieces_of(text: str) -> list[str]:
    """The text as tokens: words with the space before them, line ends, whole tags; an emoji is four tokens."""
    pieces = _PIECE.findall(text)
    return [part for piece in pieces for part in ([piece, "", "", ""] if ord(piece[-1]) > 0xFFFF else [piece])]


def label_of(piece: str, number: int) -> str:
    """How the vocabulary shows a piece."""
    if not piece:
        return f"<0x{0x80 + number % 64:02X}>"
    return piece.replace("\\", "\\\\").replace("\n", "\\n").replace(" ", "␣")


class MadeUp:
    """A made-up model asked about a text.

    Args:
        text: What it predicts.
        gate: The weight of its cache; 0: it has none, so one component and no places.
        prompt: What it reads before, without predicting.
        others: Further texts by role; the cache copies from the first of them where there is one.
    """

    def __init__(self, text: str, gate: float = 0.4, prompt: str = "", **others: str) -> None:
        self.gate, self.reach = gate, 60.0
        read = {"text": pieces_of(prompt) + pieces_of(text), **{role: pieces_of(one) for role, one in others.items()}}
        self.first = max(len(pieces_of(prompt)), 1)
        self.role: Any = next(iter(others), "text")
        kinds: dict[tuple[str, int], int] = {}
        for pieces in read.values():
            for place, piece in enumerate(pieces):
                kinds.setdefault((piece, 0 if piece else place), len(kinds))
        self.ids = {
            role: [kinds[piece, 0 if piece else place] for place, piece in enumerate(pieces)]
            for role, pieces in read.items()
        }
        self.pieces = read
        self.labels = {number: label_of(piece, place) for (piece, place), number in kinds.items()}

    def distribution(self, index: int) -> dict[str, np.ndarray]:
        """By component, the part of every token's probability, after the tokens before ``index``."""
        ids = self.ids["text"]
        size = len(self.labels)
        counts = np.full(size, 0.001)
        for number, count in Counter(token for role in self.ids.values() for token in role).items():
            counts[number] += 0.02 * count**2
        for place in range(len(ids) - 1):
            if ids[place] == ids[index - 1]:
                counts[ids[place + 1]] += 4.0 * (index % 5) ** 2
        words = counts / counts.sum()
        if not self.gate:
            return {"softmax": words}
        weights = self.attention(index)
        copied = np.zeros(size)
        np.add.at(copied, self.ids[self.role][: len(weights)], weights)
        return {"softmax": (1 - self.gate) * words, "cache": self.gate * copied}

    def attention(self, index: int) -> np.ndarray:
        """Over the places that the cache sees before ``index``."""
        ids, previous = self.ids[self.role], self.ids["text"][index - 1]
        last = index if self.role == "text" else len(ids)
        near = np.exp(-np.arange(last)[::-1] / self.reach)
        follows = np.array([0.0, *(float(ids[place - 1] == previous) for place in range(1, last))])[:last]
        weights = near * (0.1 + 4 * follows)
        return np.asarray(weights / weights.sum())

    def record(self, name: str = "mill", candidates: int = 10, places: int = 8) -> TraceRecord:
        """The trace."""
        columns: dict[str, list[Any]] = {key: [] for key in ("log_prob", "rank", "entropy")}
        shares: dict[str, list[float]] = {"softmax": []}
        top: dict[str, Any] = {"ids": [], "log_prob": [], "shares": {"softmax": []}}
        where: dict[str, list[Any]] = {"at": [], "share": []}
        if self.gate:
            shares["cache"], top["shares"]["cache"] = [], []
        ids = self.ids["text"]
        for index in range(self.first, len(ids)):
            parts = self.distribution(index)
            whole = sum(parts.values())
            observed = ids[index]
            columns["log_prob"].append(float(np.log(whole[observed])))
            columns["rank"].append(int((whole > whole[observed]).sum()) + 1)
            columns["entropy"].append(float(-(whole * np.log(whole)).sum()))
            best = np.argsort(-whole, kind="stable")[:candidates]
            top["ids"].append(best.tolist())
            top["log_prob"].append(np.log(whole[best]).tolist())
            for part, values in parts.items():
                shares[part].append(float(values[observed] / whole[observed]))
                top["shares"][part].append((values[best] / whole[best]).tolist())
            if self.gate:
                weights = self.gate * self.attention(index) / whole[observed]
                holds = np.array(self.ids[self.role][: len(weights)]) == observed
                strongest = [place for place in np.argsort(-weights * holds, kind="stable")[:places] if holds[place]]
                where["at"].append([int(place) for place in strongest])
                where["share"].append([float(weights[place]) for place in strongest])
        roles: Any = self.ids
        return TraceRecord(
            nextword="0.1.0",
            model=TracedModel(
                name=name,
                head="cache" if self.gate else "softmax",
                objective="histalign" if self.gate else "mle",
                backbone="GPT2LMHeadModel",
                parameters=11_234_816,
            ),
            texts={role: TracedText(ids=roles[role], pieces=self.pieces[role]) for role in roles},
            positions_in={"cache": self.role} if self.gate else {},
            first=self.first,
            vocabulary=self.labels,
            tokens=TracedTokens(
                **columns,
                shares=shares,
                candidates=Candidates(**top),
                positions={"cache": StrongestPositions(**where)} if self.gate else {},
            ),
        )


def story(**settings: Any) -> TraceRecord:
    """The trace of a short story, without its title."""
    return MadeUp(STORY, **settings).record()


def long_trace(tokens: int = 2000, kinds: int = 900, gate: float = 0.4) -> TraceRecord:
    """A trace of so many predicted tokens, of words drawn from so many."""
    draw = random.Random(5)
    words = ["".join(draw.choices("aeioulnrstmk", k=draw.randint(2, 9))) for _ in range(kinds)]
    text = "The" + "".join(" " + words[int(kinds * draw.random() ** 3)] for _ in range(tokens))
    return MadeUp(text, gate=gate).record()


def one_text(text: str, role: Role = "text") -> TraceRecord:
    """The trace of any text, or of a word that follows it where it is of another role."""
    return MadeUp(text).record() if role == "text" else MadeUp("So it is.", **{role: text}).record()
