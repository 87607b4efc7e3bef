"""Measures an n-gram index: time to build it, memory during queries, and time per query token.

The corpus consists of real paragraphs, repeated and shuffled into documents until it has the wanted number of tokens.
``--data`` names text files, ``--tokenizer`` the folder of GPT-2's vocab.json and merges.txt. Queries come from another
text (``--asked``): tokens with their 512 preceding tokens, one at a time as in decoding and 512 at a time as in
scoring. Building and queries run in separate processes; memory is their peak as the system reports it, with Python and
torch. Rows are appended to ``benchmarks/data/text_memory.csv``.

    python benchmarks/text_memory.py --data wikitext-2/train.txt --asked wikitext-2/valid.txt --tokenizer gpt2
    python benchmarks/text_memory.py --quick    # made-up text
"""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from options import at_least, parser, settled
from rows import append, surroundings

SEEN = 512
"""Tokens before each that is asked about."""

PARAGRAPHS = 40
"""Of a document."""

SHARES = (0.5, 0.2, 0.15, 0.1, 0.05)
"""Of a head and of each level; which numbers they are costs nothing."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "text_memory", rounds=None)
    options.add_argument("--data", type=Path, nargs="*", default=[], help="text files with one paragraph per line")
    options.add_argument("--asked", type=Path, help="file of other text, for the queries")
    options.add_argument("--tokenizer", type=Path, help="folder with vocab.json and merges.txt")
    options.add_argument("--tokens", type=at_least(1000), default=100_000_000, help="number of tokens in the corpus")
    options.add_argument("--ask", type=at_least(1), default=2000, help="number of query tokens")
    options.add_argument("--folder", type=Path, help="folder for the corpus; none: a temporary folder")
    given = settled(options, argv, tokens=20_000, ask=100)
    if not given.quick and not (given.data and given.asked and given.tokenizer):
        options.error("--data, --asked and --tokenizer must be given, unless --quick is")
    folder = Path(given.folder or tempfile.mkdtemp(prefix="text-memory-"))
    try:
        built = in_a_process(build, given, folder)
        print(", ".join(f"{name} {value}" for name, value in built.items()), flush=True)
        asked = in_a_process(ask, given, folder)
    finally:
        if given.folder is None:
            shutil.rmtree(folder)
    row = {"tokens": given.tokens, **built, "asked": given.ask, **asked, **surroundings()}
    for name in (*built, *asked):
        print(f"{name:22} {row[name]}")
    append(given.out, [row])


def in_a_process(work: Any, given: Any, folder: Path) -> dict[str, Any]:
    """What a function answers in a process of its own, so that its memory is its own."""
    spawned = multiprocessing.get_context("spawn")
    with spawned.Pool(1) as pool:
        found: dict[str, Any] = pool.apply(work, (given, folder))
    return found


def build(given: Any, folder: Path) -> dict[str, Any]:
    """Stores the corpus; reading and shuffling it are not counted."""
    from nextword.retrieval.ngram import build_ngram_index

    paragraphs, vocab_size = tokens_of(given, given.data)
    start, made = time.perf_counter(), Documents(paragraphs, given.tokens)
    build_ngram_index(made, folder, vocab_size=vocab_size, tokenizer="0" * 64, data=[str(path) for path in given.data])
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return {
        "vocabulary": vocab_size,
        "build_s": f"{time.perf_counter() - start - made.seconds:.1f}",
        "build_gb": f"{held():.2f}",
        "disk_gb": f"{size / 1e9:.3f}",
    }


class Documents:
    """Paragraphs drawn at random, with the time that drawing took."""

    def __init__(self, paragraphs: Sequence[np.ndarray], tokens: int) -> None:
        self.paragraphs, self.tokens, self.seconds = paragraphs, tokens, 0.0

    def __iter__(self) -> Iterator[Any]:
        from nextword.retrieval.ngram import Document

        chance, made, number = np.random.default_rng(0), 0, 0
        while made < self.tokens:
            start = time.perf_counter()
            drawn = chance.integers(0, len(self.paragraphs), PARAGRAPHS)
            ids = np.concatenate([self.paragraphs[place] for place in drawn])[: self.tokens - made]
            made, number = made + len(ids), number + 1
            self.seconds += time.perf_counter() - start
            yield Document(f"document {number}", ids)


def ask(given: Any, folder: Path) -> dict[str, Any]:
    """Asks what comes next, one position at a time and many."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    import nextword as nw
    from nextword.retrieval.ngram import MatchWeights, NgramIndex, NgramModel, mixed_with_ngrams
    from nextword.retrieval.ngram.levels import LENGTHS
    from nextword.retrieval.ngram.ngram_index import LastTokens

    paragraphs, vocab_size = tokens_of(given, [given.asked] if given.asked else [], seed=1)
    text = np.concatenate(paragraphs)
    text = np.resize(text, max(len(text), given.ask + SEEN))
    memory = NgramModel(NgramIndex(folder), MatchWeights(shares=[list(SHARES)] * len(LENGTHS)))
    config = GPT2Config(
        vocab_size=vocab_size, n_embd=8, n_layer=1, n_head=1, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    model = nw.attach(GPT2LMHeadModel(config), "softmax")
    base = model.distribution(torch.zeros(1, 1, dtype=torch.long))
    alone: list[float] = []
    lengths: list[int] = []
    with torch.no_grad():
        for place in range(SEEN, SEEN + given.ask):
            ids = text[None, place - SEEN : place]
            contexts = LastTokens(ids, ids >= 0, np.zeros(1, dtype=int), np.full(1, SEEN - 1))
            start = time.perf_counter()
            found = memory.find(contexts)
            mixed_with_ngrams(base, memory, found)
            alone.append(time.perf_counter() - start)
            lengths.append(int(found.length[0]))
        together = 0.0
        for begin in range(SEEN, SEEN + given.ask, SEEN):
            positions = np.arange(begin, min(begin + SEEN, SEEN + given.ask)) - 1
            ids = text[None, begin - SEEN : begin + SEEN]
            contexts = LastTokens(ids, ids >= 0, np.zeros_like(positions), positions - (begin - SEEN))
            many = model.distribution(torch.zeros(len(positions), 1, dtype=torch.long))
            start = time.perf_counter()
            mixed_with_ngrams(many, memory, memory.find(contexts))
            together += time.perf_counter() - start
    return {
        "mean_match": f"{np.mean(lengths):.2f}",
        "alone_ms_mean": f"{1000 * np.mean(alone):.3f}",
        "alone_ms_p99": f"{1000 * np.quantile(alone, 0.99):.3f}",
        "together_ms_mean": f"{1000 * together / given.ask:.3f}",
        "asking_gb": f"{held():.2f}",
    }


def held() -> float:
    """The most memory that this process held at once, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def tokens_of(given: Any, files: Sequence[Path], seed: int = 0) -> tuple[list[np.ndarray], int]:
    """Paragraphs as tokens, and the size of the vocabulary; made up where there is no file."""
    if given.quick and not files:
        chance = np.random.default_rng(seed)
        return [np.minimum(chance.zipf(1.3, 60), 999) for _ in range(200)], 1000
    from transformers import GPT2TokenizerFast

    tokenizer = GPT2TokenizerFast.from_pretrained(given.tokenizer)
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 1]
    encoded = tokenizer([line + "\n" for line in lines], verbose=False)["input_ids"]
    return [np.array(ids) for ids in encoded], len(tokenizer)


if __name__ == "__main__":
    main()
