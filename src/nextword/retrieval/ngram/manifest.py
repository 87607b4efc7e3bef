"""The manifest of an n-gram index, with checks of tokenizer and vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.runtime.files import Record

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = 1
"""Version of the file format; increased if older versions would misread the files."""

MANIFEST = "text-memory.json"  # the name it had at first, so that old indexes load
"""File name of the manifest, which is written last; a folder without it is unfinished."""

STREAM, ORDER, STARTS, NAMES = "stream.npy", "order.npy", "starts.npy", "names.json"


class NgramManifest(Record):
    """Description of the corpus in a folder; written when all other files are complete."""

    format: int = FORMAT
    """Version of the files."""
    kind: Literal["text"] = "text"
    """Kind of store: tokens, without states."""
    tokenizer: str
    """Fingerprint of the tokenizer that made the tokens."""
    vocab_size: int = Field(ge=1)
    """Vocabulary size; all tokens are below it."""
    data: list[str]
    """Source of the corpus."""
    documents: int = Field(ge=1)
    """Number of documents that are not empty."""
    empty: int = Field(ge=0)
    """Number of empty documents, which were left out."""
    tokens: int = Field(ge=1)
    """Number of tokens of all documents."""
    places: int = Field(ge=1)
    """Number of tokens that have a token after them in their document."""

    @model_validator(mode="before")
    @classmethod
    def _format_is_known(cls, content: object) -> object:
        version = content.get("format", FORMAT) if isinstance(content, dict) else FORMAT
        if isinstance(version, int) and version > FORMAT:
            raise ValueError(f"format: must be at most {FORMAT} ({version} given); upgrade nextword to read it")
        return content

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.places != self.tokens - self.documents:
            raise ValueError(
                f"places: must be the tokens without the last of each document ({self.places:,} given); build it again"
            )
        return self

    @property
    def length(self) -> int:
        """Number of entries of the token stream: tokens, and a mark before, between and after documents."""
        return self.tokens + self.documents + 1

    @classmethod
    def of(cls, folder: str | Path) -> NgramManifest:
        """Reads the manifest in ``folder``. Raises ValueError if there is no finished n-gram index."""
        path = Path(folder) / MANIFEST
        if not path.is_file():
            raise ValueError(
                f"{folder}: must be a finished n-gram index (no {MANIFEST} there); make one with nextword ngram build"
            )
        return cls.load(path)

    def expect_tokenizer(self, tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> None:
        """Raises ValueError if the corpus was made with another tokenizer; ``folder`` is for the message."""
        found = tokenizer_fingerprint(tokenizer)
        if found != self.tokenizer:
            name = tokenizer.name_or_path or type(tokenizer).__name__
            raise ValueError(
                f"{folder}: must be made with the model's tokenizer (it was made with {self.tokenizer[:12]}, "
                f"'{name}' is {found[:12]}); build it again with this tokenizer"
            )

    def expect_vocabulary(self, size: int, folder: str | Path) -> None:
        """Raises ValueError if ``size``, a model's vocabulary size, is below that of the corpus."""
        if size < self.vocab_size:
            raise ValueError(
                f"{folder}: must be of a model with {self.vocab_size:,} tokens or more ({size:,} given); build it "
                "again with this model"
            )
