"""A head over another one: it mixes what it adds, such as retrieved tokens, with the distribution of any head below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from jaxtyping import Float
from pydantic import field_validator
from torch import Tensor

from nextword.distribution import NextToken, SoftmaxDistribution
from nextword.functional.copy_scores import Stored
from nextword.heads.head import ContextOf, Head, HeadConfig, StoredTexts, build_head, head_spec, parse_head
from nextword.heads.input_states import Dimensions
from nextword.settings.old_modules import old_names


class WrapperHeadConfig(HeadConfig):
    """Settings that every head over another one has."""

    below: str | dict[str, Any] | None = None
    """The head below: its spec, or its settings written out. None: the head that the model has, with all that it has
    learned; softmax where it has none."""

    @field_validator("below")
    @classmethod
    def _known(cls, below: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
        if below is not None:
            parse_head(below)
        return below

    def unbuilt(self) -> WrapperHeadConfig:
        """With the head below as a spec."""
        return self if self.below is None else self.model_copy(update={"below": head_spec(parse_head(self.below))})

    def as_published(self) -> Any:
        """As of any head, with the head below likewise."""
        return super().as_published().over_published()

    def over_published(self) -> Any:
        """With the head below as its paper has it, wherever its settings are still to be fitted."""
        if self.below is None:
            return self
        return self.model_copy(update={"below": parse_head(self.below).as_published().model_dump()})

    def over(self, former: HeadConfig | None) -> WrapperHeadConfig:
        """With the model's own head below, where none is named."""
        if self.below is not None:
            return self
        named = former.below if isinstance(former, WrapperHeadConfig) else former
        return self.model_copy(update={"below": "softmax" if named is None else head_spec(parse_head(named))})


class DelegatingHead(Head):
    """A head that leaves to the one below it whatever it does not do itself."""

    below: Head
    reads_past: bool = False
    """Whether it looks at earlier tokens itself, whatever the head below does."""

    @property
    def inputs(self) -> Any:  # type: ignore[override]
        """What the head below reads."""
        return self.below.inputs

    @property
    def remembers(self) -> bool:
        return self.reads_past or self.below.remembers

    @property
    def reads_source(self) -> bool:
        return self.below.reads_source

    @property
    def reads_words(self) -> bool:
        return self.reads_past or self.below.reads_words

    @property
    def looks_back(self) -> int | None:
        return self.below.looks_back

    def streams(self, states: Float[Tensor, "B T D"], inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        return self.below.streams(states, inputs)

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        return self.below.source_streams(states)

    def validate_backbone(self, context_of: ContextOf, weights_of: Callable[[], str | None]) -> None:
        self.below.validate_backbone(context_of, weights_of)

    def open_stored(self) -> None:
        self.below.open_stored()

    def expect_tokenizer(self, fingerprint_of: Callable[[], str | None]) -> None:
        self.below.expect_tokenizer(fingerprint_of)

    def init_from_backbone(self, context_of: ContextOf) -> None:
        self.below.init_from_backbone(context_of)

    def resized(self, vocab_size: int) -> None:
        self.below.resized(vocab_size)

    def stored_texts(self) -> Mapping[str, StoredTexts]:
        return self.below.stored_texts()

    def facts(self) -> dict[str, Any]:
        return self.below.facts()


class WrapperHead(DelegatingHead):
    """The part of a head over another one that is the same whatever it adds.

    A concrete one adds ``forward`` and, where it looks at earlier tokens, sets ``reads_past``.
    """

    modes: ClassVar[tuple[str, ...]] = ("joint", "below")
    """The whole, or the head below alone."""

    def __init__(self, config: WrapperHeadConfig, dimensions: Dimensions) -> None:
        super().__init__(config, dimensions)
        del self._modules["inputs"]  # those of the head below are read, and saved with it
        self.below = build_head(parse_head(config.below or "softmax"), dimensions)
        self._taken_over = False
        self._know_below()

    def _know_below(self) -> None:
        self.config = self.config.model_copy(update={"below": self.below.config.model_dump()})

    def take_over(self, former: Head) -> None:
        """Goes on with the model's own head, or with the one below that, where it is the one that is asked for."""
        own = former.below if isinstance(former, WrapperHead) else former
        if own.config.unbuilt() == self.below.config.unbuilt():
            self.below, self._taken_over = own, True
            self._know_below()

    def init_from_backbone(self, context_of: ContextOf) -> None:
        """Starts the head below, unless it was at work already."""
        if not self._taken_over:
            super().init_from_backbone(context_of)
            self._know_below()

    def resized(self, vocab_size: int) -> None:
        super().resized(vocab_size)
        self._know_below()


def normalised_jointly(distribution: NextToken, stored: Mapping[str, Stored], place: str) -> SoftmaxDistribution:
    """A distribution with further entries under its own normaliser; ``place`` is the setting that asks for it.

    Raises:
        ValueError: It is not one softmax.
    """
    if not isinstance(distribution, SoftmaxDistribution):
        raise ValueError(
            f"{place}: must be over a head with one softmax, such as softmax, softmax+cpr:20,100 or cache "
            f"({type(distribution).__name__} given); elsewhere mix by a weight"
        )
    return distribution.beside(stored)


__getattr__ = old_names(__name__)
