"""What the other commands print and write, about tiny saved models.

Their tokenizers are trained by merging bytes: trained on pieces or unigrams, one is another in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import typer

import nextword as nw
from nextword.cli import app
from tests.helpers.answered_surveys import every_form, prefer, samples_file, saved
from tests.helpers.golden.comparisons import lines
from tests.helpers.golden.workplace import Workplace, at_work
from tests.helpers.killed_trainings import SMALL, sentences
from tests.helpers.opened_models import decoder, encoder_decoder
from tests.helpers.small_datastores import saved_model, texts
from tests.helpers.text_tokenizers import byte_level
from tests.helpers.word_models import TEXT, WORDS, word_model, word_tokenizer
from tests.helpers.writing_models import LOUD_CACHE, opened_model

STORY = "The king sat on the throne. The king stood.\n"
SUMMARY = "The king stood."
METRICS = (
    "distinct:1,2", "rep", "seq-rep", "diversity", "self-bleu", "bleu", "rouge:1,2,l", "copying", "uniq", "zipf",
    "cider",
    "ms-jaccard", "token-repetition", "topics", "frequency-groups",
)  # fmt: skip


def jobs() -> Iterator[tuple[str, Any]]:
    """Name of each file with what makes its content."""
    made: tuple[Callable[[Workplace], None], ...] = (
        listings, training, scores, pages, checks, texts_written, measured_texts, surveys, stores, text_memories,
        counts,
    )  # fmt: skip
    for steps in made:
        yield f"tasks/{steps.__name__}", partial(at_work, steps)


def put(opened: Any, folder: Path, dtype: str = "float") -> str:
    """Saves a model with its tokenizers; its name."""
    getattr(opened.model, dtype)().save_pretrained(folder)
    opened.tokenizer.save_pretrained(folder)
    if opened.auxiliary_tokenizer is not None:
        opened.auxiliary_tokenizer.encoder.save_pretrained(folder / "encoder_tokenizer")
    return folder.name


def listings(place: Workplace) -> None:
    """Help of every command, and all lists."""

    def helped(command: Any, *names: str) -> None:
        place.run(*names, "--help")
        for name, inner in getattr(command, "commands", {}).items():
            helped(inner, *names, name)

    helped(typer.main.get_command(app))
    for kind in ("heads", "objectives", "conditioners", "metrics", "tasks", "recipes"):
        place.run("list", kind)
    place.run("reproduce")
    place.run("list", "haeds")


def training(place: Workplace) -> None:
    """Models from training to a page: alone, with adapters, and gone on with."""
    book = place.data("book.txt", "\n".join(sentences(160)))
    place.data("valid.txt", "\n".join(sentences(8, seed=5)))
    given = ("train", "--data", book, "--model", "small", *SMALL, "training.steps=4")
    place.run(*given, "--head", "cache", "--objective", "histalign", "--seed", 3, "--out", "one")
    place.run(*given, "--head", "cache", "--objective", "histalign", "--seed", 3, "--out", "one")
    place.run(*given, "--head", "cache", "--objective", "histalign", "--seed", 4, "--out", "one")
    place.run(*given, "--head", "softmax+c", "--out", "two", "training.lora={rank=2}")
    place.run("score", "one", "two", "valid.txt", "--out", "scored")
    place.run("generate", "one", "--prompt", "the cat", "--max-new-tokens", 8, "--decoding", "greedy")
    place.run("inspect", "one", "two", "--text", "valid.txt", "--out", "page.html")
    place.run("attach", "two", "--head", "cache", "--held", "valid.txt", "--out", "three")


def scores(place: Workplace) -> None:
    """Two models on texts, in all that can be asked for."""
    heads = {"plain": "softmax", "ours": "cache:published", "pg": "pg"}
    for seed, (name, head) in enumerate(heads.items()):
        nw.attach(word_model(seed), head).save_pretrained(place.folder / name)
        word_tokenizer().save_pretrained(place.folder / name)
    place.data("text.txt", TEXT + "\n")
    place.data("rows.jsonl", lines([{"story": f"{TEXT} {word}", "about": word} for word in [*WORDS, *WORDS]]))
    asked = ("rows.jsonl", "--field", "text=story")
    place.run("score", *heads, *asked, "--out", "scored", "--window", 8)
    place.run("score", "plain", "mine=ours", *asked, "--tokens", "tokens.jsonl", "--window", 12, "--stride", 5)
    place.run("score", "ours", "text.txt", "--set", "temperature=2")
    place.run("score", "plain", *asked, "--field", "prompt=about")
    place.run("score", "plain", "text.txt", "--window", 99)
    place.run("score", "plain")


def pages(place: Workplace) -> None:
    """Traces of all kinds of models, and their pages."""
    names = [
        put(decoder(byte_level(), head), place.folder / name)
        for name, head in {
            "plain": "softmax",
            "cache": "cache",
            "pg": "pg",
            "mos": "mos:2+c",
            "sig": "sigsoftmax",
        }.items()
    ]
    put(encoder_decoder("bart", "softmax+ce"), place.folder / "bart")
    put(opened_model("t5", "pg"), place.folder / "t5")
    put(opened_model("gpt2", "pg", "bergpt"), place.folder / "conditioned")
    place.data("story.txt", STORY)
    place.data("summary.txt", SUMMARY)
    for name in names:
        place.run("inspect", name, "--text", "story.txt", "--out", f"{name}.html", "--json", f"{name}.json")
    place.run("inspect", "plain", "cache", "--text", "story.txt", "--out", "two.html", "--candidates", 4, "--places", 2)
    place.run("inspect", "cache", "--prompt", STORY, "--continue", 8, "--out", "own.html", "--json", "own.json")
    place.run("inspect", "cache", "--prompt", STORY, "--continue", 8, "--decoding", "top-k:5", "--out", "drawn.html")
    for name in ("bart", "t5"):
        read = ("--source", "story.txt", "--target", "summary.txt")
        place.run("inspect", name, *read, "--out", f"{name}.html", "--json", f"{name}.json")
    told = ("--auxiliary", "summary.txt", "--text", "story.txt")
    place.run("inspect", "conditioned", *told, "--out", "conditioned.html", "--json", "conditioned.json")
    place.run("inspect", "cache.json", "pg.json", "--out", "again.html")


def checks(place: Workplace) -> None:
    """Every property of some models."""
    names = [
        put(decoder(byte_level(), head), place.folder / name)
        for name, head in {"plain": "softmax", "cache": "cache", "sig": "sigsoftmax", "full": "mos:2+cpr:3,8"}.items()
    ]
    names.append(put(opened_model("t5", "softmax+cepr:3"), place.folder / "t5"))
    names.append(put(opened_model("gpt2", "softmax", "bergpt"), place.folder / "conditioned"))
    for name in names:
        place.run("check", name, "--verbose", "--out", f"{name}-checked")


def texts_written(place: Workplace) -> None:
    """Every way to write, as texts and as files of samples."""
    put(opened_model(head=LOUD_CACHE), place.folder / "model", "double")
    put(opened_model("t5", "softmax+ce"), place.folder / "t5", "double")
    put(opened_model("gpt2", "pg", "dau"), place.folder / "conditioned", "double")
    place.data("p.txt", "The king\na little dragon\nOnce upon\n")
    place.data("t5.jsonl", lines([{"source": f"The king met {name}.", "references": ["x"]} for name in ("a", "b")]))
    place.data("told.jsonl", lines([{"prompt": "The king", "auxiliary": name} for name in ("A king.", "A queen.")]))
    asked = ("--max-new-tokens", 6)
    place.run("generate", "model", "--prompt", "The king", *asked)
    place.run("generate", "model", "p.txt", *asked, "--decoding", "top-k:4", "--decoding", "beam:3", "--out", "several")
    drawn = ("--decoding", "top-p:0.9", "--seed", 1, "--seed", 2, "--samples", 2)
    place.run("generate", "model", "p.txt", *asked, *drawn, "--out", "drawn")
    place.run("generate", "model", "p.txt", *asked, "--decoding", "greedy", "--draft", "head", "--batch-size", 1)
    place.run(
        "generate", "model", "p.txt", *asked, "--set", "repetition_penalty=1.3", "--stop", "the", "--out", "c.jsonl"
    )
    for name, file in {"t5": "t5.jsonl", "conditioned": "told.jsonl"}.items():
        place.run("generate", name, file, *asked, "--decoding", "beam:2", "--out", f"by-{name}.jsonl")
    place.run("generate", "model", "p.txt", *asked, "--decoding", "topk:4")


def measured_texts(place: Workplace) -> None:
    """Texts of two systems with two seeds, and every measure that needs no model."""
    for name, words in {"a": "one two three four", "b": "one two one two", "c": "six six seven"}.items():
        rows = [
            {"id": n, "prompt": f"begin {n}", "text": f"{words} {n} {words}", "references": [f"one two {n} five four"]}
            for n in range(12)
        ]
        place.data(f"{name}.jsonl", lines(rows))
    files, quick = ("x=a.jsonl", "x=b.jsonl", "y=c.jsonl"), ("--set", "resamples=200")
    for metric in METRICS:
        out = metric.partition(":")[0]
        place.run("evaluate", *files, "--metrics", metric, *quick, "--out", out)
    place.run("evaluate", *files, "--metrics", "distinct:1,2", "--metrics", "rep", *quick, "--out", "together")
    place.run("evaluate", *files, "--metrics", "distnct")


def surveys(place: Workplace) -> None:
    """Forms of each kind, and what people said."""
    from nextword.evaluation.survey import MadeSurvey
    from nextword.results.records.survey_files import Survey, SurveyKey

    for name in "ab":
        samples_file(place.folder / f"{name}.jsonl", name)
    for kind in ("pairwise", "rating", "faithfulness"):
        place.run("survey", "make", kind, "a=a.jsonl", "b=b.jsonl", "--items", 6, "--out", kind, "--set", "checks=1")
    folder = place.folder / "pairwise"
    survey, key = Survey.load(folder / "survey.json"), SurveyKey.load(folder / "key.json")
    answers = saved(every_form(MadeSurvey(survey, key, "", []), prefer("b")), place.folder)
    place.run("survey", "results", "pairwise", *(path.name for path in answers), "--resamples", 50)


def stores(place: Workplace) -> None:
    """A datastore, its index, and a model that retrieves from it."""
    saved_model(place.folder / "model")
    place.data("data.jsonl", lines([{"text": text} for text in texts()]))
    place.data("text.txt", TEXT + "\n")
    place.run("datastore", "build", "model", "data.jsonl", "--out", "store", "--window", 16)
    place.run("datastore", "build", "model", "data.jsonl", "--out", "small", "--window", 16, "--precision", "int8")
    place.run("attach", "model", "--head", "knn:store=store", "--out", "retrieving")
    place.run("attach", "model", "--head", "cache", "--held", "text.txt", "--out", "cached")
    place.run("score", "model", "retrieving", "cached", "text.txt")
    place.run("datastore", "index", "store", "--factory", "Flat")


def text_memories(place: Workplace) -> None:
    """A corpus in which a model looks its last tokens up."""
    word_model(1).save_pretrained(place.folder / "model")
    word_tokenizer().save_pretrained(place.folder / "model")
    place.data("train.txt", TEXT)
    place.data("valid.txt", "the queen sat on a horse and the king saw the queen ran far")
    place.data("test.txt", "the old dog sat on a horse and the king saw it ran far")
    place.run("text-memory", "build", "model", "train.txt", "--out", "memory")
    place.run("text-memory", "fit", "model", "memory", "valid.txt", "--out", "weights.json")
    found = ("test.txt", "--weights", "weights.json", "--out", "score.json")
    place.run("text-memory", "score", "model", "memory", *found)


def counts(place: Workplace) -> None:
    """Counts of tokens, and the classes that follow from them."""
    byte_level().save_pretrained(place.folder / "tokenizer")
    place.data("train.txt", "the cat sat on the mat\nthe dog ran\n" * 40 + STORY * 3)
    place.run("count", "train.txt", "--tokenizer", "tokenizer", "--out", "counts.npz")
    place.run("classes", "counts.npz", "--tokenizer", "tokenizer")
    for division in ("eq-token", "eq-freq", "mefmax"):
        place.run("classes", "counts.npz", "--classes", 4, "--division", division)
