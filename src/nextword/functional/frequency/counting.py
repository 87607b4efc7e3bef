"""Counts the tokens of a corpus, in parallel or as a stream; corpora may exceed memory, and killed counts resume.

``datasets.map`` turns each batch of texts into one row with its tokens and their counts. So memory holds only one batch
and one number per token of the vocabulary.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from nextword.functional.frequency.counts import TokenCounts, tokenizer_fingerprint
from nextword.runtime.corpora import Batch, Corpus, gathered, is_streamed, keeps_a_buffer, open_corpus, readable
from nextword.runtime.corpora.output_files import expect_inputs_kept
from nextword.runtime.resumable import ArrayCheckpoint, expect_writable
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from transformers import PreTrainedTokenizerBase


AT_ONCE = 1 << 20
"""Number of characters encoded together. A row may be a whole corpus, and tokens take much more memory than text."""

BATCHES_AT_ONCE = 8
"""Initial number of batches per process and step; a batch of a text file is one megabyte."""

MOST_BATCHES_AT_ONCE = 128
STEP_SECONDS = 5.0
"""Seconds per step. If a step takes less time, the next step has twice as many batches, because each step starts new
processes."""

MOST_PROCESSES = 1024

Count = Callable[[Batch], dict[str, list[Any]]]
"""Function that ``map`` calls, also in other processes."""


def count_tokens(
    data: str | Path | Dataset | IterableDataset,
    tokenizer: PreTrainedTokenizerBase,
    *,
    out: str | Path | None = None,
    text_column: str | int = "text",
    split: str | None = None,
    processes: int | None = None,
    batch_size: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> TokenCounts:
    """Counts how often each token occurs in ``data``. Special tokens are not added; line ends count as in task ``lm``.

    Args:
        data: A text file, a table (.jsonl, .csv, .tsv, .parquet), a folder of such files, a name on the hub (``name``
            or ``name:config``), or a data set with texts or ``input_ids``. Ids with an ``attention_mask`` of 0 are not
            counted.
        tokenizer: Tokenizer of the texts, or of the ``input_ids``.
        out: File to write. Unfinished counts are saved next to it every half minute, and a killed count resumes from
            there with the same result. None: counts are only returned.
        text_column: Column with the text, as a name, or as a number from 0 in a file without header.
        split: Split to count, of a folder or a data set of the hub; None: the training split, or all files of a folder
            without splits.
        processes: Number of processes, which read the data from the cache of ``datasets``. None: one process reads the
            data as a stream, and the tokenizer uses threads.
        batch_size: Number of table rows read together.
        progress: Function called regularly with the number of texts counted so far.

    Returns:
        A ``TokenCounts``: the counts (V,) of all tokens of the vocabulary, and where the data came from.

    Raises:
        ValueError: If the data, the column or the split do not exist, no token is found, ``processes`` is above 1024,
            ``out`` is one of the files read, the unfinished counts of ``out`` have other settings, or another process
            writes to ``out``.
        DiskFullError: If there is no disk space for the counts.

    Examples:
        >>> import tempfile
        >>> import nextword as nw
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"<unk>": 0, "the": 1, "king": 2}, unk_token="<unk>"))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
        >>> path = Path(tempfile.mkdtemp(), "book.txt")
        >>> written = path.write_text("the king and the queen")
        >>> nw.count_tokens(path, tokenizer).counts.tolist()
        [2, 2, 1]
    """
    if processes is not None and not 1 <= processes <= MOST_PROCESSES:
        raise ValueError(f"processes: must be from 1 to {MOST_PROCESSES} ({processes:,} given); use one per core")
    if out is not None:
        expect_inputs_kept(
            {named("out"): [out]}, [data if isinstance(data, str | Path) else None, tokenizer.name_or_path]
        )
    target = None if out is None else Path(out)
    with _prepared(threads=processes in (None, 1)), contextlib.nullcontext() if target is None else alone(target):
        corpus = open_corpus(data, "data", text_column=text_column, split=split, streaming=processes is None)
        batch_size = corpus.batch_size or batch_size
        size = max(len(tokenizer), max(tokenizer.get_vocab().values()) + 1)
        tokens_of = _tokens_of_ids if corpus.lines is None else partial(_tokens_of_texts, tokenizer, corpus.lines)
        fingerprint = tokenizer_fingerprint(tokenizer)
        settings: dict[str, str | int] = {
            "tokenizer": fingerprint, "data": corpus.identity, "text_column": str(text_column)
        }  # fmt: skip
        if is_streamed(corpus.rows):
            if target is not None and keeps_a_buffer(corpus.rows):
                raise ValueError(
                    "data: a shuffled stream cannot be resumed, and the order does not change counts. "
                    "Give it without shuffle(), or count without out."
                )
            settings |= {"reading": "as a stream", "batch_size": batch_size}  # its state is valid for one batch size
            in_steps: Callable[..., Iterator[Tally]] = _streamed
        else:
            settings |= {"reading": "by row"}
            in_steps = partial(_by_row, processes=processes or 1)
        checkpoint = ArrayCheckpoint(None if target is None else partial_path(target), "count", settings)
        begun = checkpoint.load(Tally.restored) or Tally(np.zeros(size, dtype=np.int64), 0, None)
        with readable(corpus.source):
            steps = in_steps(corpus, partial(_counted, size, tokens_of), batch_size, begun)
            tally = _followed(steps, checkpoint, progress)
        if tally is None or not tally.counts.any():
            raise ValueError(f"data: there is no token in '{corpus.source}'")
        counted = TokenCounts(tally.counts, fingerprint, corpus.source)
        if target is not None:
            counted.save(target)
        checkpoint.remove()
    return counted


def _followed(
    steps: Iterator[Tally], checkpoint: ArrayCheckpoint, progress: Callable[[int], None] | None
) -> Tally | None:
    """Iterates to the last tally; reports each one, and saves regularly and at an interruption."""
    tally = None
    try:
        for tally in steps:
            if checkpoint.is_due:
                tally.save(checkpoint)
            if progress is not None:
                progress(tally.items)
    except BaseException as problem:
        if tally is not None and checkpoint.path is not None:
            tally.save(checkpoint)
        elif isinstance(problem, KeyboardInterrupt):
            raise KeyboardInterrupt("nothing was counted yet") from None
        raise
    return tally


def _streamed(corpus: Corpus, count: Count, batch_size: int, tally: Tally) -> Iterator[Tally]:
    rows = corpus.rows.map(
        count, batched=True, batch_size=batch_size, remove_columns=list(corpus.columns), features=_features()
    )
    if tally.state is not None:
        rows.load_state_dict(tally.state)
        yield tally
    for row in rows:
        tally = tally.plus(row, rows.state_dict())
        yield tally


def _by_row(corpus: Corpus, count: Count, batch_size: int, tally: Tally, processes: int) -> Iterator[Tally]:
    begin = tally.state or 0
    if begin:
        yield tally
    number = len(corpus.rows)
    rows = corpus.rows.with_format(None)
    at_once = BATCHES_AT_ONCE
    while begin < number:
        began = time.monotonic()
        end = min(number, begin + at_once * processes * batch_size)
        # With a few batches, no process should get less than one.
        workers = min(processes, -(-(end - begin) // batch_size))
        with _interrupted_alone():
            counted = rows.select(range(begin, end)).map(
                count,
                batched=True,
                batch_size=batch_size,
                remove_columns=list(corpus.columns),
                features=_features(),
                num_proc=workers if workers > 1 else None,
                keep_in_memory=True,
                load_from_cache_file=False,
                new_fingerprint=f"counted-{begin}",  # not made from the tokenizer, which would be hashed each time
            )
        for row in counted.with_format("numpy"):
            tally = tally.plus(row, tally.state)  # the old state, because a count cannot resume within a step
        begin = end
        if time.monotonic() - began < STEP_SECONDS:
            at_once = min(2 * at_once, MOST_BATCHES_AT_ONCE)
        tally = Tally(tally.counts, tally.items, begin)
        yield tally


@contextlib.contextmanager
def _interrupted_alone() -> Iterator[None]:
    """In this block only the main process handles Ctrl-C.

    Forked processes ignore it and are ended by the main process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    here, interrupted = os.getpid(), False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if os.getpid() == here:
            interrupted = True
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception:
        if interrupted:  # datasets waits for the other processes again, and reports that this took too long
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _features() -> Any:
    from datasets import Features, List, Value

    return Features({"ids": List(Value("int64")), "counts": List(Value("int64")), "items": Value("int64")})


@contextlib.contextmanager
def _prepared(threads: bool) -> Iterator[None]:
    """Turns off progress bars of ``datasets``, and the tokenizer's threads if processes are forked."""
    import datasets

    name = "TOKENIZERS_PARALLELISM"
    environment, before, hidden = os.environ, os.environ.get(name), datasets.are_progress_bars_disabled()
    os.environ[name] = "true" if threads else "false"
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        # datasets replaces the object by a copy when it forks; code with the first object no longer sees changes
        os.environ = environment  # noqa: B003
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
        if not hidden:
            datasets.enable_progress_bars()


TokensOf = Callable[[Batch], tuple[Int[np.ndarray, "T"], int]]
"""Function that returns all tokens of a batch, and its number of texts."""


def _counted(size: int, tokens_of: TokensOf, batch: Batch) -> dict[str, list[Any]]:
    """Summarises a batch of rows as one row: the tokens that occur, their counts, and the number of texts."""
    tokens, items = tokens_of(batch)
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < size:
        wrong = tokens.min() if tokens.min() < 0 else tokens.max()
        raise ValueError(
            f"data: token {wrong} is not among the {size} tokens of the tokenizer. Was the data made with another one?"
        )
    counts = np.bincount(tokens, minlength=size)
    ids = np.flatnonzero(counts)
    return {"ids": [ids], "counts": [counts[ids]], "items": [items]}


def _tokens_of_texts(
    tokenizer: PreTrainedTokenizerBase, lines_of: Callable[[Batch], list[str]], batch: Batch
) -> tuple[Int[np.ndarray, "T"], int]:
    lines = lines_of(batch)
    ids_alone = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    found = [_joined(tokenizer(some, **ids_alone, verbose=False)["input_ids"]) for some in gathered(lines, AT_ONCE)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found]), len(lines)


def _tokens_of_ids(batch: Batch) -> tuple[Int[np.ndarray, "T"], int]:
    ids = batch["input_ids"]
    tokens = _joined(ids)
    if "attention_mask" in batch:
        mask = _joined(batch["attention_mask"])
        if len(mask) != len(tokens):
            raise ValueError(
                f"data: {len(mask)} positions of attention_mask for {len(tokens)} of input_ids; each must have one"
            )
        tokens = tokens[mask != 0]
    return tokens, len(ids)


def _joined(rows: Any) -> Int[np.ndarray, "T"]:
    return np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64)


# -- The file of an unfinished count, from which the count resumes.


@dataclass(frozen=True, eq=False)
class Tally:
    """The state of an unfinished count.

    Attributes:
        counts: Count of each token so far.
        items: Number of texts counted so far.
        state: Where to resume: the number of a row, or the state of a stream.
    """

    counts: Int[np.ndarray, "V"]
    items: int
    state: Any

    def plus(self, row: Mapping[str, Any], state: Any) -> Tally:
        """Returns a new tally with ``row``, the counts of a batch, added and with ``state``.

        This tally is not changed, so an interruption leaves no half-updated tally.
        """
        counts = self.counts.copy()
        counts[row["ids"]] += np.asarray(row["counts"], dtype=np.int64)
        return Tally(counts, self.items + int(row["items"]), state)

    @classmethod
    def restored(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tally:
        """Makes a tally from a saved one: ``about`` has the number of texts and the state, ``arrays`` the counts."""
        return cls(arrays["counts"], about["items"], about["state"])

    def save(self, checkpoint: ArrayCheckpoint) -> None:
        """Saves the tally, so that the count can resume from it."""
        checkpoint.save({"items": self.items, "state": self.state}, {"counts": self.counts})


def partial_path(out: Path) -> Path:
    """Path of the file with the unfinished counts, next to the file ``out``."""
    return out.with_name(f"{out.name}.partial")


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Locks the file ``out`` in a ``with`` block. ValueError if another process of this machine has locked it."""
    from filelock import FileLock, Timeout

    path = out.with_name(f"{out.name}.lock")  # locks the file, not its folder, so that other counts may run beside it
    expect_writable(path)
    try:
        with FileLock(path).acquire(timeout=0):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    except Timeout:
        raise ValueError(
            f"{out}: must be written by one process at a time (another one counts into it); wait until it is done, or "
            "name another file to write"
        ) from None
