"""A small comparison of every task, with most heads and objectives in it, as ``nextword compare`` runs it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.helpers.golden.passes import OBJECTIVES
from tests.helpers.golden.workplace import Workplace, at_work
from tests.helpers.olympic_tables import write_logicnlg
from tests.helpers.summaries import save_encoder, write_pairs

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NAMES = ["Ann", "Bob", "Cyd", "Dan", "Eve", "Fay", "Gus", "Hal"]
PLACES = ["Rome", "Oslo", "Lima", "Bonn", "Kiev"]
BOOK = "".join(" ".join(WORDS[(line * line + place) % 10] for place in range(12)) + " .\n" for line in range(300))
GPT2 = {"n_layer": 1, "n_embd": 16, "n_head": 2, "steps": 4}
T5 = {"d_model": 16, "d_ff": 16, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "steps": 4}
WINDOWS = {"vocabulary": 300, "block": 24, "window": 16, "stride": 8, "tuning_tokens": 64, "batch_size": 4}
TRAINING = {"steps": 4, "batch_size": 4, "learning_rate": 1e-2, "log_every": 1, "evaluate_every": 2}
WRITTEN = {"prompts": 6, "prefix": 4, "continuation": 10, "metrics": ["diversity", "rep", "seq-rep", "likelihood"]}


def jobs() -> Iterator[tuple[str, Any]]:
    """Name of each file with what makes its content."""
    made: dict[str, Callable[[Workplace], None]] = {
        "ambiguous": ambiguous,
        "lm": lm,
        "lm, objectives": lm_objectives,
        "lm, several stages": lm_stages,
        "continue": continued,
        "seq2seq": seq2seq,
        "summarise": summarise,
        "expand": expand,
        "table2text": table2text,
    }
    for name, steps in made.items():
        yield f"tasks/compare {name}", partial(at_work, steps)


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def ambiguous(place: Workplace) -> None:
    start = GPT2 | {"documents": 100, "block": 32, "knows": 0.0}
    sizes = {"train_prompts": 20, "validation_prompts": 10, "test_prompts": 20, "rank_rows": 200}
    methods = ["softmax", "mos:3", "softmax+cpr:20,100", "cache", "cache/histalign", "f2", "sigsoftmax"]
    task = {"name": "ambiguous", **sizes, "start": start}
    place.compared("out", place.recipe("mine", seeds=[0, 1], threads=1, task=task, training=TRAINING, methods=methods))


def _lm(place: Workplace, methods: list[Any], **further: Any) -> None:
    task = {"name": "lm", "data": place.data("book.txt", BOOK), **WINDOWS, "test_tokens": 300, "start": GPT2}
    task["generation"] = WRITTEN
    recipe = {"seeds": [0], "threads": 1, "task": task, "training": TRAINING, "methods": methods} | further
    place.compared("out", place.recipe("mine", **recipe))


def lm(place: Workplace) -> None:
    _lm(
        place,
        ["softmax", "cache", "pg", "softmax+mi:1x3", "mos:2+cpr:3,8+mi:1x2", "copynet", "f2", "ps", "softmax+r:3"],
    )


def lm_objectives(place: Workplace) -> None:
    everywhere = ["mle", "unlikelihood", "face"]
    _lm(place, [f"softmax/{one}" for one in everywhere] + [f"cache/{one}" for one in OBJECTIVES if "," not in one])


def lm_stages(place: Workplace) -> None:
    methods = [
        {"head": "softmax", "then": {"objective": "unlikelihood"}},
        {"head": "cache", "trained_as": "softmax"},
        {"head": "cache", "training": {"lora": {"rank": 2}}, "label": "adapters"},
        {"head": "mos:2", "trained": False},
        {"head": "cache", "search": {"training.learning_rate": [1e-2, 1e-3]}, "label": "searched"},
    ]
    _lm(place, methods, seeds=[0, 1])


def continued(place: Workplace) -> None:
    draw = random.Random(0)
    stories = [{"story": " ".join(draw.choices(WORDS, k=draw.randrange(5, 20)))} for _ in range(80)]
    sizes = WINDOWS | {"validation_share": 0.2, "test_share": 0.2, "start": GPT2}
    written = WRITTEN | {"draws": [0, 1], "decodings": ["greedy", "top-p:0.9", "top-k:4", "beam:2"]}
    task = {"name": "continue", "data": place.data("stories.jsonl", lines(stories)), **sizes, "generation": written}
    methods = ["softmax", "cache", "cache/histalign", "f2"]
    place.compared("out", place.recipe("mine", seeds=[0], threads=1, task=task, training=TRAINING, methods=methods))


def _parts(place: Workplace, pair: Callable[[int], dict[str, str]]) -> str:
    for part, numbers in {"train": range(60), "validation": range(60, 70), "test": range(70, 86)}.items():
        place.data(f"data/{part}.jsonl", lines([pair(number) for number in numbers]))
    return "data"


def _fact(number: int) -> tuple[str, str]:
    who, where = NAMES[number % 8], PLACES[number % 5]
    told = f"It was day {number}. {who} went to {where} by train. Nobody saw {who} there. The train was late."
    return told, f"{who} was in {where}."


def seq2seq(place: Workplace) -> None:
    data = _parts(place, lambda number: dict(zip(("source", "target"), _fact(number), strict=True)))
    task = {
        "name": "seq2seq", "data": data, "vocabulary": 320, "frequent_words": 5, "batch_size": 8, "start": T5,
        "generation": {"pairs": 6, "beams": 2, "max_new_tokens": 9},
    }  # fmt: skip
    methods = ["softmax", "softmax+ce", "softmax+cepr:20+mi", "pg", "cache"]
    place.compared("out", place.recipe("mine", seeds=[0], threads=1, task=task, training=TRAINING, methods=methods))


def summarise(place: Workplace) -> None:
    data = _parts(place, lambda number: dict(zip(("document", "summary"), _fact(number), strict=True)))
    task = {
        "name": "summarise", "data": data, "vocabulary": 330, "max_source_tokens": 40, "max_target_tokens": 12,
        "frequent_words": 5, "batch_size": 8, "start": T5, "generation": {"summaries": 6},
    }  # fmt: skip
    methods = ["softmax", "cache/histalign", "softmax+cepr:20+mi", "copynet", "ps"]
    place.compared("out", place.recipe("mine", seeds=[0], threads=1, task=task, training=TRAINING, methods=methods))


def expand(place: Workplace) -> None:
    for name in ("news", "encoder"):
        (place.folder / name).mkdir()
    write_pairs(place.folder / "news")
    save_encoder(place.folder / "encoder")
    task = {
        "name": "expand", "data": "news", "encoder": "encoder", "vocabulary": 300, "length": 12, "prompt_tokens": 7,
        "batch_size": 4, "start": GPT2 | {"block": 16},
        "generation": {"prompts": 5, "batch_size": 3, "metrics": ["likelihood:mean", "rouge:1,2,l"]},
    }  # fmt: skip
    methods = [
        {"head": "softmax", "trained": False}, "softmax", "softmax/mle/dau", "softmax/mle/lmh:max", "pg/mle/bergpt",
        "softmax/mle/prefix:3", "cache/mle/bergpt",
    ]  # fmt: skip
    place.compared("out", place.recipe("mine", seeds=[0], threads=1, task=task, training=TRAINING, methods=methods))


def table2text(place: Workplace) -> None:
    (place.folder / "tables").mkdir()
    write_logicnlg(place.folder / "tables")
    task = {
        "name": "table2text", "data": "tables", "vocabulary": 300, "batch_size": 4, "max_source_tokens": 120,
        "max_target_tokens": 30, "start": T5, "generation": {"batch_size": 4, "decodings": ["beam:2"]},
    }  # fmt: skip
    methods = ["softmax", "cache", "cache/histalign:alpha=0.5", "pg"]
    place.compared("out", place.recipe("mine", seeds=[0], threads=1, task=task, training=TRAINING, methods=methods))
