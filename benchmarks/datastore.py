"""Measures building time, size, search speed and recall of datastores.

``--model`` is a saved model and ``--data`` the text of the datastore, used up to ``--keys`` keys. ``--asked`` is
another text: ``--queries`` of its states are searched in one batch, and the perplexity of its first ``--scored`` tokens
is measured, with the temperature and weight that ``--held`` selects under exact search. Interleaved are: building a
datastore of the first ``--built`` keys; a forward pass over the same batches, with and without the output layer; exact
search; numpy's product of the same keys and queries, with keys read as float16 or kept in memory as float32; and FAISS.
Recall is the share of the exact ten nearest keys among the ten of FAISS. Rows are appended to
``benchmarks/data/datastore.csv``; with your own model, set ``--out``.

    python benchmarks/datastore.py --model runs/wide --data wikitext-2/train.txt --asked wikitext-2/test.txt
    python benchmarks/datastore.py --quick    # made-up text, a random model
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from interleaved import interleaved, ratio, seconds_of
from options import at_least, folder, parser, settled
from rows import append, surroundings

import nextword as nw
from nextword.inference.datastore import BuildSettings, build_datastore, tuned_retrieval
from nextword.inference.datastore.build import Documents, DocumentWindow, states_of
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.retrieval import StoredKeys
from nextword.retrieval.datastore.search import ExactSearch, FaissSearch, build_index
from nextword.retrieval.datastore.stored_keys import StoreManifest
from nextword.runtime.corpora import open_corpus

BLOCK = 16_384
"""Keys that numpy multiplies at once."""

SETTINGS = BuildSettings()


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "datastore", rounds=3)
    options.add_argument("--model", type=folder, help="folder of a saved decoder-only model")
    options.add_argument("--data", type=Path, help="text of the datastore")
    options.add_argument(
        "--asked", type=Path, help="text whose states are the queries and whose perplexity is measured"
    )
    options.add_argument("--held", type=Path, help="text for calibrating weight and temperature; none: 0.25 and 1")
    options.add_argument("--keys", type=at_least(1000), default=1_000_000, help="number of keys in the datastore")
    options.add_argument("--built", type=at_least(100), default=50_000, help="numbers of keys in the timed builds")
    options.add_argument("--queries", type=at_least(1), default=512)
    options.add_argument("--count", type=at_least(10), default=32, help="number of keys retrieved per query")
    options.add_argument(
        "--scored", type=at_least(10), default=8000, help="number of tokens whose perplexity is measured"
    )
    options.add_argument("--factory", nargs="+", default=["IVF4096,SQ8"], help="FAISS factory string of each index")
    options.add_argument("--nprobe", type=at_least(1), nargs="+", default=[4, 8, 16, 32])
    toy = {"keys": 4000, "built": 1000, "queries": 16, "count": 10, "scored": 200, "factory": ["IVF8,Flat"]}
    given = settled(options, argv, nprobe=[4], **toy)
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

    from nextword.experiments.tasks.tokenizers import word_tokenizer

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
    stored = _beginning(opened, given.data, given.keys, scratch / given.data.name)
    about = {"data": given.data.name, **_building(opened, given, scratch)}
    store = scratch / "store"
    build_datastore(given.model, stored, store, SETTINGS)
    keys = StoredKeys(store)
    about |= {"keys": len(keys), "width": keys.width}
    about["bytes_over_keys"] = round(_bytes(store) / (len(keys) * keys.width * 2), 3)
    print(about, flush=True)
    setting = _tuned(opened, given, store, scratch)
    exact = _perplexity(opened, given, setting, scratch)
    rows: list[dict[str, Any]] = []
    for factory in given.factory:
        build_index(keys, factory)
        for row in _searches(opened, given, keys, factory):
            found = exact
            if row["parameters"]:
                found = _perplexity(opened, given, setting | {"index": row["parameters"]}, scratch)
            elif rows:
                continue  # exact search is one row, whatever is beside it
            row |= {"perplexity": round(found, 4), "perplexity_off_percent": round(100 * abs(found / exact - 1), 4)}
            print(row, flush=True)
            rows.append(about | row)
    asked = {"queries": given.queries, "count": given.count, "scored": given.scored, "rounds": given.rounds}
    tuned = {"temperature": setting.get("temperature", 1.0), "weight": round(setting.get("weight", 0.25), 4)}
    same = asked | tuned | surroundings()  # one date: the rows of a run belong together
    return [row | same for row in rows]


def _beginning(opened: OpenedModel, text: Path, tokens: int, out: Path) -> Path:
    """The beginning of a text that has so many tokens, as a file."""
    whole = text.read_text(encoding="utf-8")
    spans = opened.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    ends = [end for _, end in spans["offset_mapping"]]
    if len(ends) < tokens:
        raise SystemExit(f"{text}: has {len(ends):,} tokens, {tokens:,} are needed; name more text or ask for fewer")
    out.write_text(whole[: ends[tokens - 1]], encoding="utf-8")
    return out


def _building(opened: OpenedModel, given: Any, scratch: Path) -> dict[str, float]:
    """Seconds of a build of part of the text, and how many times those of a forward pass."""
    part, store = _beginning(opened, given.data, given.built, scratch / "built.txt"), scratch / "built"
    windows = _windows(opened, part, build_datastore(given.model, part, store, SETTINGS))

    def build() -> object:
        shutil.rmtree(store)
        return build_datastore(opened, part, store, SETTINGS)

    def forward(model: Any) -> None:
        with torch.inference_mode():
            for begin in range(0, len(windows), SETTINGS.batch_size):
                ids = [torch.tensor(one.ids[:-1]) for one in windows[begin : begin + SETTINGS.batch_size]]
                model(torch.nn.utils.rnn.pad_sequence(ids, batch_first=True), use_cache=False)

    whole = opened.model.backbone
    ways = {"build": build, "forward": partial(forward, whole), "states": partial(forward, whole.base_model)}
    timed = interleaved({name: partial(seconds_of, way) for name, way in ways.items()}, given.rounds)
    found = {
        "built": sum(one.stored for one in windows),
        "build_s": round(statistics.median(timed["build"]), 1),
        "forward_s": round(statistics.median(timed["forward"]), 1),
        "build_over_forward": round(ratio(timed["build"], timed["forward"]), 3),
        "build_over_states": round(ratio(timed["build"], timed["states"]), 3),
    }
    shutil.rmtree(store)
    return found


def _windows(opened: OpenedModel, data: Path, manifest: StoreManifest) -> list[DocumentWindow]:
    """A text in windows such as those that were stored."""
    of = manifest.origin
    return list(Documents(open_corpus(data, "data")).windows(opened.tokenizer, of.start, of.window, of.stride))


def _bytes(store: Path) -> int:
    return sum(path.stat().st_size for path in store.iterdir() if path.is_file())


def _searches(opened: OpenedModel, given: Any, keys: StoredKeys, factory: str) -> list[dict[str, Any]]:
    """Exact search, then FAISS with each number of lists that are looked through."""
    queries = _queries(opened, given, keys)
    in_memory, asked = keys.keys_at(np.arange(len(keys))), queries.numpy()
    exact = ExactSearch(keys)
    faiss = {probes: FaissSearch(keys, f"nprobe={probes}") for probes in given.nprobe}
    ways: dict[str, Callable[[], object]] = {
        "exact": lambda: exact.nearest(queries, given.count),
        "numpy": lambda: _products(_read(keys), asked),
        "in memory": lambda: _products(_parts(in_memory), asked),
        **{str(probes): lambda search=search: search.nearest(queries, given.count) for probes, search in faiss.items()},
    }
    timed = interleaved({name: lambda way=way: seconds_of(way) for name, way in ways.items()}, given.rounds)
    true = exact.nearest(queries, 10)
    rows = [
        {"search": "exact", "parameters": "", "recall_at_10": 1.0, "ms_a_query": _milliseconds(timed["exact"], given),
         "over_numpy": round(ratio(timed["exact"], timed["numpy"]), 3),
         "over_in_memory": round(ratio(timed["exact"], timed["in memory"]), 3), "faster_than_exact": 1.0}
    ]  # fmt: skip
    for probes, search in faiss.items():
        found = search.nearest(queries, 10)
        recall = (found[:, :, None] == true[:, None, :]).any(1).float().mean().item()
        own = timed[str(probes)]
        rows.append(
            {"search": factory, "parameters": f"nprobe={probes}", "recall_at_10": round(recall, 4),
             "ms_a_query": _milliseconds(own, given), "over_numpy": round(ratio(own, timed["numpy"]), 4),
             "over_in_memory": round(ratio(own, timed["in memory"]), 4),
             "faster_than_exact": round(ratio(timed["exact"], own), 1)}
        )  # fmt: skip
    return rows


def _milliseconds(seconds: Sequence[float], given: Any) -> float:
    return round(1000 * statistics.median(seconds) / given.queries, 3)


def _queries(opened: OpenedModel, given: Any, keys: StoredKeys) -> torch.Tensor:
    """States of the other text, drawn from its first windows."""
    windows = _windows(opened, given.asked, keys.manifest)
    states = np.concatenate(states_of(opened, windows[:40], 8))
    drawn = np.random.default_rng(0).choice(len(states), min(given.queries, len(states)), replace=False)
    return torch.from_numpy(states[drawn])


def _products(parts: Iterable[np.ndarray], queries: np.ndarray) -> None:
    """Block by block, as the scores of all keys at once would not fit."""
    for part in parts:
        queries @ part.T


def _read(keys: StoredKeys) -> Iterator[np.ndarray]:
    """The keys as they lie in the store, made float32 by numpy."""
    for shard in keys.shards:
        for part in _parts(shard.keys):
            yield part.numpy().astype(np.float32)


def _parts(keys: torch.Tensor) -> Iterator[torch.Tensor]:
    for begin in range(0, len(keys), BLOCK):
        yield keys[begin : begin + BLOCK]


def _tuned(opened: OpenedModel, given: Any, store: Path, scratch: Path) -> dict[str, Any]:
    """The head with exact search, and temperature and weight that the held-out text likes best."""
    setting: dict[str, Any] = {"head": "knn", "store": str(store), "k": given.count}
    if given.held is None:
        return setting
    held = _beginning(opened, given.held, given.scored // 2, scratch / "held.txt").read_text(encoding="utf-8")
    return setting | tuned_retrieval(replace(opened, model=nw.attach(opened.model, setting)), [held])


def _perplexity(opened: OpenedModel, given: Any, setting: dict[str, Any], scratch: Path) -> float:
    """Of the first tokens of the other text."""
    asked = _beginning(opened, given.asked, given.scored, scratch / "asked-first.txt").read_text(encoding="utf-8")
    return nw.score(nw.attach(opened.model, setting), opened.tokenizer, [asked]).models[0].perplexity


if __name__ == "__main__":
    main()
