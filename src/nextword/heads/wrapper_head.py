"""A head over another head: it mixes, for example, retrieved tokens with the distribution of the head below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
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
    """Settings that every head over another head has."""

    below: str | dict[str, Any] | None = None
    """The head below, as a spec or a table of settings. None: the model's current head with its trained weights, or
    softmax if the model has no head."""

    @field_validator("below")
    @classmethod
    def _known(cls, below: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
        if below is not None:
            parse_head(below)
        return below

    folder: ClassVar[str | None] = None
    """Name of the setting with the folder of the store (datastore or index); None: the head has no store."""

    def located(self) -> WrapperHeadConfig:
        """These settings with absolute paths of stored files, also in the settings of the head below."""
        changes: dict[str, Any] = {}
        if self.folder is not None and (path := getattr(self, self.folder)) is not None:
            changes[self.folder] = str(Path(path).expanduser().absolute())
        if self.below is not None:
            changes["below"] = parse_head(self.below).located().model_dump()
        return self.model_copy(update=changes)

    def unbuilt(self) -> WrapperHeadConfig:
        """These settings with the head below written as a spec, such as ``mos:3``."""
        return self if self.below is None else self.model_copy(update={"below": head_spec(parse_head(self.below))})

    def as_published(self) -> Any:
        """These settings with the paper's value in place of each ``fitted``, also in the head below."""
        return super().as_published().over_published()

    def over_published(self) -> Any:
        """These settings with the paper's value in place of each ``fitted`` in the head below."""
        if self.below is None:
            return self
        return self.model_copy(update={"below": parse_head(self.below).as_published().model_dump()})

    def over(self, former: HeadConfig | None) -> WrapperHeadConfig:
        """These settings with the model's own head ``former`` as the head below, if ``below`` is None.

        If ``former`` is of the same class, its own ``below`` is used instead.
        """
        if self.below is not None:
            return self
        named = former.below if isinstance(former, type(self)) else former
        return self.model_copy(update={"below": "softmax" if named is None else parse_head(named).model_dump()})


class WrapperHead(Head):
    """A head over another head; it delegates everything that it does not implement to the head below.

    A subclass implements ``forward``. If it reads earlier tokens, it sets ``reads_past``. If it reads a store
    (datastore or index) from disk, it sets ``opened_by`` and implements ``_open``, which opens and checks the store.

    Args:
        config: The head's settings.
        dimensions: Sizes of the backbone.
        below: The head below; None: built from the settings.
    """

    modes: ClassVar[tuple[str, ...]] = ("joint", "below")
    """Components that can be evaluated: the whole distribution, or the head below alone."""
    label: ClassVar[str] = ""
    """Name of the head's component of the distribution."""
    opened_by: ClassVar[tuple[str, ...]] = ()
    """Names of the settings that determine which store is opened and how, first the folder; empty: no store."""
    reads_past: bool = False
    """Whether the head itself reads earlier tokens, independent of the head below."""

    def __init__(self, config: WrapperHeadConfig, dimensions: Dimensions, below: Head | None = None) -> None:
        super().__init__(config, dimensions)
        del self._modules["inputs"]  # the inputs of the head below are used, and saved with that head
        self.below = build_head(parse_head(config.below or "softmax"), dimensions) if below is None else below
        self._taken_over = below is not None
        self._opened: tuple[Any, Any] | None = None
        self._tokenizer: str | None = None
        self._know_below()

    def _know_below(self) -> None:
        self.config = self.config.model_copy(update={"below": self.below.config.model_dump()})
        self.adjustable = type(self).adjustable | self.below.adjustable  # type: ignore[misc]

    @property
    def component(self) -> str:
        """Name of the head's component, with a number if a head below is of the same class, such as ``knn 2``."""
        count, head = 1, self.below
        while isinstance(head, WrapperHead):
            count += type(head) is type(self)
            head = head.below
        return self.label if count == 1 else f"{self.label} {count}"

    @property
    def inputs(self) -> Any:  # type: ignore[override]
        """The module that computes the inputs of the head below."""
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

    def configure(self, changes: Mapping[str, Any]) -> None:
        """Changes settings of this head. Settings that only the head below has are changed in the head below."""
        known = type(self.config).model_fields
        of_below = {name: value for name, value in changes.items() if name not in known and name in self.adjustable}
        own = self.with_settings({name: value for name, value in changes.items() if name not in of_below})
        self.below.configure(of_below)
        self.config = own
        self._know_below()

    def take_over(self, former: Head) -> None:
        """Replaces ``below`` by ``former``, or by a head below that, if the two have equal settings."""
        while former.config.unbuilt() != self.below.config.unbuilt():
            if not isinstance(former, WrapperHead):
                return
            former = former.below
        self.below, self._taken_over = former, True
        self._know_below()

    def init_from_backbone(self, context_of: ContextOf) -> None:
        """Initialises the head below, unless it was reused from the model."""
        if not self._taken_over:
            self.below.init_from_backbone(context_of)
            self._know_below()

    def resized(self, vocab_size: int) -> None:
        self.below.resized(vocab_size)
        self._know_below()

    def store(self) -> Any:
        """The store on disk, reopened if a setting in ``opened_by`` changes; None: no store.

        Raises:
            ValueError: If the store does not exist or does not fit the model.
        """
        asked = tuple(getattr(self.config, name) for name in self.opened_by)
        if not asked or asked[0] is None:
            return None
        if self._opened is None or self._opened[0] != asked:
            found = self._open()
            self._expect_own_tokenizer(found)
            self._opened = asked, found
        return self._opened[1]

    def _open(self) -> Any:
        """Opens the store that the settings name, with a ``folder`` and a ``tokenizer`` fingerprint."""
        raise NotImplementedError

    def _expect_own_tokenizer(self, store: Any) -> None:
        if self._tokenizer is not None and self._tokenizer != store.tokenizer:
            name = self.opened_by[0]
            raise ValueError(
                f"{name}: must be made with the model's tokenizer ('{store.folder}' was made with "
                f"{store.tokenizer[:12]}, the model's is {self._tokenizer[:12]}); build the {name} with this model's "
                "tokenizer"
            )

    def open_stored(self) -> None:
        self.store()
        self.below.open_stored()

    def validate_backbone(self, context_of: ContextOf, weights_of: Callable[[], str | None]) -> None:
        self.below.validate_backbone(context_of, weights_of)
        self.store()

    def expect_tokenizer(self, fingerprint_of: Callable[[], str | None]) -> None:
        """Raises ValueError if the store was made with another tokenizer. Stores opened later are checked too."""
        self.below.expect_tokenizer(fingerprint_of)
        self._tokenizer = fingerprint_of() or self._tokenizer
        store = self.store()
        if store is not None:
            self._expect_own_tokenizer(store)

    def stored_texts(self) -> Mapping[str, StoredTexts]:
        return self.below.stored_texts()

    def facts(self) -> dict[str, Any]:
        return self.below.facts()


def normalised_jointly(distribution: NextToken, stored: Mapping[str, Stored], place: str) -> SoftmaxDistribution:
    """Normalises ``distribution`` jointly with ``stored``, a mapping from component names to stored tokens.

    Raises:
        ValueError: If ``distribution`` is not one softmax. The message begins with ``place``, a setting's name.
    """
    if not isinstance(distribution, SoftmaxDistribution):
        raise ValueError(
            f"{place}: must be over a head with one softmax, such as softmax, softmax+cpr:20,100 or cache "
            f"({type(distribution).__name__} given); over other heads mix by a weight"
        )
    return distribution.beside(stored)


__getattr__ = old_names(__name__)
