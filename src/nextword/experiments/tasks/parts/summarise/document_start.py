"""What the start of task ``summarise`` learns: to write the sentences that were taken out of documents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from nextword.experiments.tasks.parts.pair_samples import PairSamples
from nextword.experiments.tasks.parts.seq2seq.pair_rows import StartPairs
from nextword.runtime.corpora import is_text, open_corpus
from nextword.runtime.corpora.gap_sentences import GapConfig, Pair, gap_pairs
from nextword.runtime.corpora.pairs import read_pairs


def document_pairs(data: Sequence[str], gaps: GapConfig, pairs: PairSamples) -> StartPairs:
    """Gap sentences (PEGASUS) of the training documents and of further ones; no test document is among them.

    Args:
        data: Text files, which are taken whole, and data sets, of which the training documents are taken.
        gaps: How sentences are taken out.
        pairs: The task's, which say how data sets are read and split.

    Raises:
        ValueError: Nothing there, or no document has enough sentences.
    """
    texts = [one_line(pair.source for pair in pairs.train)]
    known = {pair.source for pair in pairs.train}
    for name in data:
        path = Path(name)
        if path.is_file() and is_text(path):
            texts.append("".join(open_corpus(path, "task.start.data")))
            continue
        documents = [pair.source for pair in read_pairs(path, pairs.reading, "task.start.data").train]
        new = [document for document in documents if document not in known]
        known |= set(new)
        texts.append(one_line(new))
    taken_out = [pair for text in texts for pair in gap_pairs(text, gaps, pairs.reading.seed)]
    if not taken_out:
        raise ValueError(
            f"task.start: no document has task.gaps.min_sentences ({gaps.min_sentences}) sentences; give more "
            f"documents with task.start.data, or a smaller number"
        )
    sources = [pairs.available.source, *(f"{Path(name).parent.name}/{Path(name).name}" for name in data)]
    facts: dict[str, int | float | str] = {
        "start_source": ", ".join(sources),
        "start_sha256": _sha256(taken_out),
        "start_pairs": len(taken_out),
        "start_leak_documents": sum(pair.source in known for pair in pairs.available.test),
    }
    return StartPairs(taken_out, facts)


def one_line(documents: Iterable[str]) -> str:
    """Each document as a line, so that the sentences of all of its paragraphs are neighbours."""
    return "\n".join(" ".join(document.split()) for document in documents)


def _sha256(pairs: Sequence[Pair]) -> str:
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(f"{pair.source}\0{pair.target}\0".encode())
    return digest.hexdigest()
