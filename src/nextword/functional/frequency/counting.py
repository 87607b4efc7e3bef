"""Counts the tokens of a corpus: in parallel or as a stream, larger than memory, and on from where it was killed.

``datasets.map`` does the work. Every batch of texts becomes one row that says which tokens occur in it and how often,
so nothing larger than a batch and one number for each token of the vocabulary is ever held.
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
"""Characters that are encoded together: a row may be a whole corpus, whose tokens take much more memory than its
text."""

BATCHES_AT_ONCE = 8
"""Batches of each process between two looks at the time, at first; a batch of a text file is a megabyte."""

MOST_BATCHES_AT_ONCE = 128
STEP_SECONDS = 5.0
"""Where a step takes less, the next one has twice as many batches: processes are started anew for each."""

MOST_PROCESSES = 1024

Count = Callable[[Batch], dict[str, list[Any]]]
"""What ``map`` calls, also in other processes."""


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
    """Counts how often each token occurs. No special tokens are added; line ends count as in the task ``lm``.

    Args:
        data: A text file, a table (.jsonl, .csv, .tsv, .parquet), a folder of them, a name on the hub
            (``name`` or ``name:config``), or a data set with texts or with ``input_ids``. Of ``input_ids``, those with
            an ``attention_mask`` of 0 are left out.
        tokenizer: Tokenizer of the texts, or of the ``input_ids``.
        out: Where to write the counts. Beside it, unfinished counts are kept every half minute, and a count that was
            killed resumes from there, with the same result.
        text_column: The column with the text, by name, or by number from 0 in a file without header.
        split: The split of a folder or of a data set of the hub that is counted; None: the training split, or all of a
            folder whose files name no splits.
        processes: Number of processes, for which a table is first stored by ``datasets`` in its cache; None: one
            process reads it as a stream, and the tokenizer works in threads.
        batch_size: Rows of a table that are read together.
        progress: Called now and then with the number of texts that are done.

    Returns:
        How often each token of the vocabulary occurs: ``counts``, an array (V,), with what was counted.

    Raises:
        ValueError: Nothing there, no such column, no token in it, a split of what has none, too many processes, an
            ``out`` that is read, unfinished counts that were begun otherwise, or another process that counts into
            ``out``.
        DiskFullError: There is no room for the counts.

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
        raise ValueError(f"processes: must be from 1 to {MOST_PROCESSES} ({processes:,} given); take one for each core")
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
            settings |= {"reading": "as a stream", "batch_size": batch_size}  # its state holds for one batch size
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
    """The last tally; each is reported, and saved now and then and where the count is interrupted."""
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
            tally = tally.plus(row, tally.state)  # still in the middle: a part of a step cannot be resumed from
        begin = end
        if time.monotonic() - began < STEP_SECONDS:
            at_once = min(2 * at_once, MOST_BATCHES_AT_ONCE)
        tally = Tally(tally.counts, tally.items, begin)
        yield tally


@contextlib.contextmanager
def _interrupted_alone() -> Iterator[None]:
    """Ctrl-C goes to all processes: those forked in this block let this one end them, whatever the fork makes of it."""
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
        if interrupted:  # datasets waits for the others once more, and says that this took too long
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _features() -> Any:
    from datasets import Features, List, Value

    return Features({"ids": List(Value("int64")), "counts": List(Value("int64")), "items": Value("int64")})


@contextlib.contextmanager
def _prepared(threads: bool) -> Iterator[None]:
    """No bars of ``datasets``; the tokenizer's own threads, which must not be used where processes are forked."""
    import datasets

    name = "TOKENIZERS_PARALLELISM"
    environment, before, hidden = os.environ, os.environ.get(name), datasets.are_progress_bars_disabled()
    os.environ[name] = "true" if threads else "false"
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        # datasets puts a copy in its place where it forks, and who holds the first one no longer sees what changes
        os.environ = environment  # noqa: B003
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
        if not hidden:
            datasets.enable_progress_bars()


TokensOf = Callable[[Batch], tuple[Int[np.ndarray, "T"], int]]
"""All tokens of a batch, and the number of texts."""


def _counted(size: int, tokens_of: TokensOf, batch: Batch) -> dict[str, list[Any]]:
    """A batch of rows as one row: the tokens that occur, how often each, and how many texts it was."""
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


# -- A count that is not finished, as a file from which it continues.


@dataclass(frozen=True, eq=False)
class Tally:
    """What is counted so far.

    Attributes:
        items: Texts that were read.
        state: Where to continue: the number of a row, or a stream's own state.
    """

    counts: Int[np.ndarray, "V"]
    items: int
    state: Any

    def plus(self, row: Mapping[str, Any], state: Any) -> Tally:
        """A new tally, so that an interruption finds the old one or the new one, never a half."""
        counts = self.counts.copy()
        counts[row["ids"]] += np.asarray(row["counts"], dtype=np.int64)
        return Tally(counts, self.items + int(row["items"]), state)

    @classmethod
    def restored(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tally:
        """That which was saved."""
        return cls(arrays["counts"], about["items"], about["state"])

    def save(self, checkpoint: ArrayCheckpoint) -> None:
        """Writes it, for a count that resumes from there."""
        checkpoint.save({"items": self.items, "state": self.state}, {"counts": self.counts})


def partial_path(out: Path) -> Path:
    """Where the unfinished counts of ``out`` are kept."""
    return out.with_name(f"{out.name}.partial")


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keeps other processes of this machine from counting into ``out`` in the block; refuses where one does already."""
    from filelock import FileLock, Timeout

    path = out.with_name(f"{out.name}.lock")  # of the file, where ``locked`` has the folder: others may count beside it
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
