"""Datastores: what building takes beside a forward pass, their size, and how fast and how well they are searched.

``--model`` is a saved model, ``--data`` the text that is stored and ``--asked`` other text, whose states are looked up
(``--queries`` of them at once) and whose perplexity is measured. In turns: a build and a plain forward pass over the
same windows; exact search, numpy's product of the same blocks of keys with the same queries, and FAISS. Recall is that
of FAISS's ten nearest among the exact ten. Rows are appended to ``benchmarks/data/datastore.csv``.

    python benchmarks/datastore.py --model runs/book --data wikitext-2/train.txt --asked wikitext-2/test.txt
    python benchmarks/datastore.py --quick    # made-up text, a random model
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from interleaved import interleaved, ratio, seconds_of
from options import at_least, folder, parser, settled
from rows import append, surroundings

import nextword as nw
from nextword.corpora import open_corpus
from nextword.datastore import BuildSettings, build_datastore, tuned_weight
from nextword.datastore.documents import Documents, DocumentWindow
from nextword.datastore.shard_task import states_of
from nextword.retrieval import StoredKeys
from nextword.retrieval.exact_search import ExactSearch
from nextword.retrieval.faiss_search import FaissSearch, build_index
from nextword.retrieval.store_manifest import StoreManifest
from nextword.scoring.opened_model import OpenedModel

BLOCK = 16_384
"""Keys that numpy multiplies at once, as many as exact search."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "datastore", rounds=3)
    options.add_argument("--model", type=folder, help="folder of a saved decoder-only model")
    options.add_argument("--data", type=Path, help="text that is stored")
    options.add_argument("--asked", type=Path, help="text whose states are looked up and whose perplexity is measured")
    options.add_argument("--held", type=Path, help="text that the weight of the store is tuned on; none: weight 0.25")
    options.add_argument("--queries", type=at_least(1), default=512)
    options.add_argument("--count", type=at_least(10), default=32, help="keys found for each query")
    options.add_argument("--factory", default="IVF1024,SQ8", help="FAISS's words for the index")
    options.add_argument("--nprobe", type=at_least(1), nargs="+", default=[8, 32, 128])
    given = settled(options, argv, queries=16, count=10, factory="IVF8,Flat", nprobe=[4])
    scratch = Path(tempfile.mkdtemp(prefix="datastore-"))
    try:
        if given.quick:
            given.model, given.data, given.asked = _made_up(scratch)
        elif not (given.model and given.data and given.asked):
            options.error("--model, --data and --asked must be given, unless --quick is")
        append(given.out, _measured(given, scratch))
    finally:
        shutil.rmtree(scratch)


def _made_up(scratch: Path) -> tuple[str, Path, Path]:
    """A random model, a text and another one."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from nextword.tasks.parts.word_tokenizer import word_tokenizer

    generator = np.random.default_rng(0)
    texts = [scratch / name for name in ("stored.txt", "asked.txt")]
    for path, words in zip(texts, (4000, 400), strict=True):
        path.write_text(" ".join(f"word{number}" for number in generator.integers(0, 40, words)), encoding="utf-8")
    tokenizer = word_tokenizer([f"word{number}" for number in range(40)])
    shape = {"vocab_size": len(tokenizer), "n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2}
    nw.attach(GPT2LMHeadModel(GPT2Config(**shape)), "softmax").save_pretrained(scratch / "model")
    tokenizer.save_pretrained(scratch / "model")
    return str(scratch / "model"), *texts


def _measured(given: Any, scratch: Path) -> list[dict[str, Any]]:
    opened = OpenedModel.of(given.model)
    store = scratch / "store"
    about = {"data": given.data.name, **_building(opened, given, store)}
    keys = StoredKeys(store)
    about |= {
        "keys": len(keys),
        "width": keys.width,
        "bytes_over_keys": round(_bytes(store) / (len(keys) * keys.width * 2), 3),
    }
    print(about, flush=True)
    build_index(keys, given.factory)
    rows = [about | row for row in _searches(opened, given, keys)]
    for row, perplexity in zip(rows, _perplexities(given, store), strict=True):
        row["perplexity"] = perplexity
        print({name: row[name] for name in row if name not in about}, flush=True)
    measured_in = surroundings()
    return [row | measured_in for row in rows]


def _windows(opened: OpenedModel, data: Path, manifest: StoreManifest) -> list[DocumentWindow]:
    """A text in windows such as those that were stored."""
    of = manifest.origin
    return list(Documents(open_corpus(data, "data")).windows(opened.tokenizer, of.start, of.window, of.stride))


def _building(opened: OpenedModel, given: Any, store: Path) -> dict[str, float]:
    """Seconds of a build, and how many times those of the forward pass it takes."""
    settings = BuildSettings()
    windows = _windows(opened, given.data, build_datastore(given.model, given.data, store, settings))

    def build() -> object:
        shutil.rmtree(store, ignore_errors=True)
        return build_datastore(given.model, given.data, store, settings)

    def forward() -> None:
        model = opened.model
        with torch.inference_mode():
            for begin in range(0, len(windows), settings.batch_size):
                ids = [torch.tensor(one.ids[:-1]) for one in windows[begin : begin + settings.batch_size]]
                model(torch.nn.utils.rnn.pad_sequence(ids, batch_first=True), use_cache=False)

    timed = interleaved({"build": lambda: seconds_of(build), "forward": lambda: seconds_of(forward)}, 1)
    return {
        "build_s": round(statistics.median(timed["build"]), 1),
        "build_over_forward": round(ratio(timed["build"], timed["forward"]), 3),
    }


def _bytes(store: Path) -> int:
    return sum(path.stat().st_size for path in store.iterdir() if path.is_file())


def _searches(opened: OpenedModel, given: Any, keys: StoredKeys) -> list[dict[str, Any]]:
    """Exact search, then FAISS with each number of lists that are looked through."""
    queries = _queries(opened, given, keys)
    exact = ExactSearch(keys)
    faiss = {probes: FaissSearch(keys, f"nprobe={probes}") for probes in given.nprobe}
    ways: dict[str, Callable[[], object]] = {
        "exact": lambda: exact.nearest(queries, given.count),
        "numpy": lambda: _products(keys, queries.numpy()),
        **{str(probes): lambda search=search: search.nearest(queries, given.count) for probes, search in faiss.items()},
    }
    timed = interleaved({name: lambda way=way: seconds_of(way) for name, way in ways.items()}, given.rounds)
    true = exact.nearest(queries, 10)
    rows = [
        {"search": "exact", "parameters": "", "recall_at_10": 1.0, "ms_a_query": _milliseconds(timed["exact"], given),
         "over_numpy": round(ratio(timed["exact"], timed["numpy"]), 3), "faster_than_exact": 1.0}
    ]  # fmt: skip
    for probes, search in faiss.items():
        found = search.nearest(queries, 10)
        recall = (found[:, :, None] == true[:, None, :]).any(1).float().mean().item()
        own = timed[str(probes)]
        rows.append(
            {"search": given.factory, "parameters": f"nprobe={probes}", "recall_at_10": round(recall, 4),
             "ms_a_query": _milliseconds(own, given), "over_numpy": round(ratio(own, timed["numpy"]), 4),
             "faster_than_exact": round(ratio(timed["exact"], own), 1)}
        )  # fmt: skip
    return rows


def _milliseconds(seconds: Sequence[float], given: Any) -> float:
    return round(1000 * statistics.median(seconds) / given.queries, 3)


def _queries(opened: OpenedModel, given: Any, keys: StoredKeys) -> torch.Tensor:
    """States of the other text, drawn from all of it."""
    windows = _windows(opened, given.asked, keys.manifest)
    states = np.concatenate(states_of(opened, windows[:40], 8))
    drawn = np.random.default_rng(0).choice(len(states), min(given.queries, len(states)), replace=False)
    return torch.from_numpy(states[drawn])


def _products(keys: StoredKeys, queries: np.ndarray) -> None:
    for _, block in keys.blocks(BLOCK):
        queries @ block.numpy().T


def _perplexities(given: Any, store: Path) -> list[float]:
    """Of the other text, with each search."""
    found = []
    for index in ("", *(f"nprobe={probes}" for probes in given.nprobe)):
        opened = OpenedModel.of(given.model)
        spec = {"head": "knn", "store": str(store), **({"index": index} if index else {})}
        retrieving = replace(opened, model=nw.attach(opened.model, spec))
        weight = tuned_weight(retrieving, given.held.read_text(encoding="utf-8")) if given.held else 0.25
        retrieving.model.configure_head(weight=weight)
        scored = nw.score(retrieving.model, opened.tokenizer, [given.asked.read_text(encoding="utf-8")])
        found.append(round(scored.models[0].perplexity, 4))
    return found


if __name__ == "__main__":
    main()
