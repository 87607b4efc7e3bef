"""Byte-level BPE tokenizers, which are trained and kept in a folder, and word tokenizers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.results.records import write_atomically
from nextword.runtime.corpora import lines as lines_of
from nextword.runtime.pretrained import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast


SMALLEST_VOCABULARY = 258
"""Minimum vocabulary size: the 256 bytes and two special tokens."""


def trained_tokenizer(
    text: str, vocabulary: int, cache: Path | None, mask: str | None = None
) -> PreTrainedTokenizerBase:
    """A byte-level BPE of ``vocabulary`` tokens, trained on ``text``, or loaded if the folder ``cache`` already has it.

    The base alphabet is the bytes, so no character is unknown and every text can be scored. ``mask`` is the text of an
    additional special token. ValueError if ``vocabulary`` is smaller than the number of bytes and special tokens.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    special = [END, PAD, *([mask] if mask is not None else [])]
    smallest = SMALLEST_VOCABULARY + len(special) - 2
    if vocabulary < smallest:
        raise ValueError(
            f"task.vocabulary: must be at least {smallest}, the number of bytes and special tokens ({vocabulary} given)"
        )
    masked = "" if mask is None else f"{mask}/"
    key = hashlib.sha256(f"bpe/{masked}{vocabulary}/{text}".encode()).hexdigest()[:16]
    path = None if cache is None else cache / f"bpe-{vocabulary}-{key}.json"
    if path is not None and path.is_file():
        tokenizer = Tokenizer.from_file(str(path))
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(lines_of(text), trainer)
        if path is not None:
            write_atomically(path, tokenizer.to_str())
    return for_transformers(tokenizer, mask=mask)


def named_or_trained(
    name: str | None, text: Callable[[], str], vocabulary: int, cache: str | None, mask: str | None = None
) -> PreTrainedTokenizerBase:
    """Load the tokenizer ``name`` (a path or hub name); None: train one on ``text()``, see ``trained_tokenizer``."""
    if name is not None:
        return load_tokenizer(name, "task.tokenizer")
    return trained_tokenizer(text(), vocabulary, None if cache is None else Path(cache), mask)


# -- A word-level tokenizer for a fixed text, with one token per word or punctuation mark.


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer with three special tokens, then the words and punctuation marks of ``texts`` in order of appearance.

    >>> tokenizer = word_tokenizer(["Paris is big.", "Rome is big."])
    >>> tokenizer("Rome is big.")["input_ids"], len(tokenizer)
    ([7, 4, 5, 6], 8)
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    splitter = pre_tokenizers.Whitespace()
    words = dict.fromkeys(word for text in texts for word, _ in splitter.pre_tokenize_str(text))
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys([END, PAD, UNKNOWN, *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = splitter
    return for_transformers(tokenizer, unknown=UNKNOWN)


# -- Tokens that a task adds to a tokenizer, such as the markup of a table.


def with_tokens(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str]) -> PreTrainedTokenizerBase:
    """Add ``tokens`` to the tokenizer, in place. The space before such a token is part of the token."""
    from tokenizers import AddedToken

    tokenizer.add_tokens([AddedToken(token, lstrip=True, normalized=False) for token in tokens])
    return tokenizer


def add_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str]) -> None:
    """Add ``tokens`` to ``tokenizer``. If ``model`` then has too few embeddings, random ones are added."""
    with_tokens(tokenizer, tokens)
    embeddings: Any = model.get_input_embeddings()
    if tokens and len(tokenizer) > embeddings.num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)


# -- The end token that tasks need.


def expect_end(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id of the end-of-sequence token. ValueError if the tokenizer has none."""
    if tokenizer.eos_token_id is None:
        raise ValueError(
            f"tokenizer '{tokenizer.name_or_path}' must have an end-of-sequence token, with which a model ends its "
            f"texts (none given); set one"
        )
    return int(tokenizer.eos_token_id)


# -- Special tokens of the tokenizers that this module makes, and their conversion for transformers.

END, PAD, UNKNOWN = "<eos>", "<pad>", "<unk>"


def for_transformers(
    tokenizer: Tokenizer, unknown: str | None = None, mask: str | None = None
) -> PreTrainedTokenizerFast:
    """Convert the tokenizer for transformers. ``<eos>`` starts and ends a text, and ``<pad>`` is padding."""
    from transformers import PreTrainedTokenizerFast

    make: Any = PreTrainedTokenizerFast  # its constructor has no annotations
    wrapped: PreTrainedTokenizerFast = make(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=PAD, unk_token=unknown, mask_token=mask
    )
    return wrapped
