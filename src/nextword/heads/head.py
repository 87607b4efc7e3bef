"""The contract of a head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Literal, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nextword.distribution import NextToken
from nextword.functional.copy_scores import CopyScores
from nextword.heads.calibration import Calibration
from nextword.heads.context import Context
from nextword.heads.input_states import Dimensions, input_states_of, modifiers
from nextword.runtime.weights import built
from nextword.settings.config import validated
from nextword.settings.old_modules import keep_old_methods
from nextword.settings.registry import Registry
from nextword.settings.specs import Grammar, SpecSettings

Fitted = Literal["fitted"]
FITTED: Final = "fitted"
"""Value of a setting that is chosen when the head is attached, so that the model stays as good as it was."""


ContextOf = Callable[[Int[Tensor, "M"]], Context]
"""Runs the model on tokens, cut into rows, and gives the context at every position."""


class HeadConfig(SpecSettings):
    """Settings that every head has.

    ``published`` holds what its paper begins with, for each setting that is otherwise ``fitted`` to the model.
    """

    head: str
    """Registered name of the head."""

    def as_published(self) -> Any:
        """With the paper's value of each setting that is still to be fitted: what a training begins with."""
        open_ = {name: value for name, value in self.published.items() if getattr(self, name) == FITTED}
        return self.model_copy(update=open_) if open_ else self

    def to_fine_tune(self) -> Any:
        """What a pretrained model is trained with: fitted to it, in the form that learns where there are two."""
        return self

    def is_met_by(self, other: HeadConfig) -> bool:
        """Whether other settings are these, or were fitted where these are still to be."""
        asked, had = self.model_dump(), other.model_dump()
        return asked.keys() == had.keys() and all(asked[name] in (had[name], FITTED) for name in asked)

    def located(self) -> HeadConfig:
        """With absolute paths of stores, which are found from any working folder: as a model is saved."""
        return self

    def unbuilt(self) -> HeadConfig:
        """These settings without what building a head for one model has filled in."""
        return self

    def over(self, former: HeadConfig | None) -> HeadConfig:
        """These settings for a model that has a head already; only a head over another one makes use of it."""
        return self


class CachedModule(nn.Module):
    """A part of a head that looks at earlier positions or at the source, and says what to keep of them.

    What depends on one position alone is computed once, when the position is new, and kept until the end. A part that
    is made of others keeps what they do.
    """

    remembers: bool = False
    """Whether it looks at earlier positions of the decoder's sequence, or keeps something of the source."""
    reads_source: bool = False
    """Whether it looks at the encoder's words and states."""

    def streams(self, inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        """What to keep of each position, by name, (B, T, ...) each."""
        return {name: kept for part in _cached_parts(self) for name, kept in part.streams(inputs).items()}

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        """What to keep of each source position, by name, (B, E, ...) each."""
        return {name: kept for part in _cached_parts(self) for name, kept in part.source_streams(states).items()}


def _cached_parts(module: nn.Module) -> list[CachedModule]:
    return [part for part in module.children() if isinstance(part, CachedModule)]


class Head(nn.Module, ABC):
    """Turns hidden states and what it remembers into a ``NextToken`` distribution.

    A concrete head is final (nobody inherits from it), stands in one file of ``nextword/heads`` with its ``Config``,
    and is found through ``@registry.register("name")``. What its projections and gates read is ``context.inputs``,
    which a config field ``mi`` widens to several layers and positions. What looks at other positions is a
    ``CachedModule``: an attribute of the head, found here.

    Args:
        config: The head's settings.
        dimensions: Sizes of the model it sits on.

    Raises:
        ValueError: The head cannot sit on such a model; the message says why.
    """

    Config: ClassVar[type[HeadConfig]]
    modes: ClassVar[tuple[str, ...]] = ("joint",)
    """What may be evaluated apart: ``joint`` is the whole distribution."""
    adjustable: ClassVar[frozenset[str]] = frozenset()
    """Settings that may be changed on a built head, because no parameter depends on them."""
    generate_takes: ClassVar[tuple[str, ...]] = ()
    """Settings among these that ``generate`` takes as arguments too, for one call."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_old_methods(cls, {"begin": "init_from_backbone", "prove": "validate_backbone"})

    def __init__(self, config: HeadConfig, dimensions: Dimensions) -> None:
        super().__init__()
        self.config: Any = config
        self.dimensions = dimensions
        self.inputs = input_states_of(getattr(config, "mi", None), dimensions)

    @property
    def layers(self) -> int:
        """How many of the last decoder hidden states ``inputs`` reads."""
        return self.inputs.layers

    @property
    def remembers(self) -> bool:
        """Whether the head looks at earlier positions, or keeps something of the source, between decoding steps."""
        return self.inputs.before > 0 or any(part.remembers for part in _cached_parts(self))

    @property
    def reads_source(self) -> bool:
        """Whether the head looks at the encoder's words and states."""
        return any(part.reads_source for part in _cached_parts(self))

    @property
    def reads_words(self) -> bool:
        """Whether the head looks at the tokens of earlier positions, and so needs ids rather than embeddings."""
        by_parts = any(part.remembers and not part.reads_source for part in _cached_parts(self))
        return by_parts or (self.remembers and not self.reads_source and not self.inputs.before)

    @property
    def looks_back(self) -> int | None:
        """How many positions before a new one are read again, of earlier windows too; None: those of the window."""
        return None

    def streams(self, states: Float[Tensor, "B T D"], inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        """What to keep of each position for later steps, by name, (B, T, ...) each; the token ids are kept anyway.

        It is made of what the output layer reads and of what ``inputs`` makes, ``q_t``.
        """
        return {name: kept for part in _cached_parts(self) for name, kept in part.streams(inputs).items()}

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        """What to keep of each source position for all steps, of the encoder's last states: (B, E, ...) by name."""
        return {name: kept for part in _cached_parts(self) for name, kept in part.source_streams(states).items()}

    def with_settings(self, changes: Mapping[str, Any]) -> Any:
        """The head's settings with some of them changed.

        Raises:
            ValueError: Unknown setting, or one that cannot change after the head is built.
        """
        changed = validated(type(self.config), self.config.model_dump() | dict(changes), "head")
        for name in sorted(changes):
            if name not in self.adjustable:
                allowed = ", ".join(sorted(self.adjustable)) or "none"
                raise ValueError(f"head.{name}: cannot change once the head is built; adjustable: {allowed}")
            if getattr(changed, name) == FITTED:
                raise ValueError(f"head.{name}: is fitted when a head is attached ('{FITTED}' given); attach it anew")
        return changed

    def configure(self, changes: Mapping[str, Any]) -> None:
        """Changes some of the head's settings; ValueError as of ``with_settings``."""
        self.config = self.with_settings(changes)

    @abstractmethod
    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """The distribution at every position of the context.

        Args:
            context: All that the head may look at.
            mode: One of ``modes``; None for what the head is set to.
        """

    def logits(self, distribution: NextToken) -> Float[Tensor, "N V"]:
        """What the model returns as ``logits``: normalised log-probabilities."""
        return distribution.log_probs()

    def take_over(self, former: Head) -> None:
        """Called when the head is attached to a model that has one, whose parts a head over another may reuse."""

    def validate_backbone(self, context_of: ContextOf, weights_of: Callable[[], str | None]) -> None:
        """Called once when the head is attached or loaded, to refuse a model that does not go with what it reads.

        Args:
            context_of: See ``init_from_backbone``.
            weights_of: Fingerprint of the backbone's weights; None where they cannot be compared.

        Raises:
            ValueError: The model is not the one that something was made with.
        """

    prove = validate_backbone  # the name that it had: plug-ins call it of their base class

    def open_stored(self) -> None:
        """Opens what lies on the disk beside the model; an engine calls it at its start, not at the first request.

        Raises:
            ValueError: It is not there, or not for a model of this size.
        """

    def expect_tokenizer(self, fingerprint_of: Callable[[], str | None]) -> None:
        """Called where the model's tokenizer may be known, to refuse one that does not go with what the head reads.

        Args:
            fingerprint_of: What it is known by; None where there is none.

        Raises:
            ValueError: Something was made with another tokenizer.
        """

    def init_from_backbone(self, context_of: ContextOf) -> None:
        """Called once when the head is attached, to start new parameters by what the model does already.

        Args:
            context_of: Runs the model on tokens, cut into rows, and gives the context at every position.
        """

    begin = init_from_backbone  # the name that it had: plug-ins call it of their base class

    def resized(self, vocab_size: int) -> None:
        """Called when the vocabulary has another number of tokens; most heads read the live output layer anyway."""

    def draw(self, config: Any, *, sample: bool) -> Draw | None:
        """How greedy search and sampling draw from this head step by step; None for what everything draws from.

        Args:
            config: The head's settings, with those that this call of ``generate`` was given.
            sample: Whether tokens are sampled at random.
        """
        return None

    def calibration(self) -> Calibration | None:
        """What reads held-out text once, and knows then which settings are best; None: there is nothing to choose."""
        return None

    def stored_texts(self) -> Mapping[str, StoredTexts]:
        """By component whose positions are in a store: where its documents can be read."""
        return {}

    def facts(self) -> dict[str, Any]:
        """What building the head found out, for records: numbers and text by name."""
        return {}


@runtime_checkable
class Draw(Protocol):
    """A random choice before the token's own, made anew at every step of generation."""

    def __call__(self, distribution: Any) -> Float[Tensor, "N V"]:
        """Log-probabilities of the tokens after a choice."""

    def token(self, distribution: Any, uniform: Float[Tensor, "N"] | None) -> Int[Tensor, "N"]:
        """The token itself, where nothing acts on those log-probabilities: drawn by a number in [0, 1), or the best."""

    def redraw(self, rows: Bool[Tensor, "N"]) -> Float[Tensor, "N V"] | None:
        """The same after another choice at some positions, whose first one left nothing allowed; None: none is left."""


@runtime_checkable
class StoredTexts(Protocol):
    """Documents of a store, numbered as ``stands_in_store`` has them."""

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        """Tokens from one position of a document to another, as far as there are any, and where the first one stands.

        ``first`` may be before the document's beginning, ``last`` beyond its end.
        """


@runtime_checkable
class RemembersTokens(Protocol):
    """A head with stored tokens, scored by similarity: what alignment objectives train."""

    def entries(self, context: Context) -> CopyScores:
        """The stored tokens with the similarity of each as seen from every position."""


registry: Registry[type[Head]] = Registry("head", Head)
"""All heads by name."""


# -- Head specs: ``mos:3+mi`` and the like, to a typed config and back, and to a head.

grammar = Grammar(registry, HeadConfig, "softmax", modifiers)


def parse_head(spec: str | Mapping[str, Any] | HeadConfig) -> HeadConfig:
    """The typed config of a head spec, of a config written out in full, or of a config as it is.

    >>> parse_head("MoS:5+Mi").model_dump(exclude_defaults=True)
    {'components': 5, 'mi': {}}
    >>> parse_head({"head": "mos:5", "bias": False}).components
    5
    >>> parse_head({"head": "mos", "componets": 3})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    nextword.settings.config.SettingsError: head.componets: unknown key. Did you mean 'components'? Known: bias, ...
    >>> parse_head("mos:0")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    nextword.settings.config.SettingsError: head spec 'mos:0': components must be at least 1 (0 given). K, ...

    Raises:
        ValueError: An unknown name (with the nearest known one), a modifier that the head does not take, arguments
            that do not fit.
    """
    return grammar.parse(spec)


def head_spec(config: HeadConfig) -> str:
    """The shortest spec that this config comes back from, without what building a head for a model has filled in.

    >>> head_spec(parse_head("mos:3+mi:1x3"))
    'mos:3+mi:1x3'
    >>> head_spec(parse_head("Softmax+Mi+CPR:100,20"))
    'softmax+cpr:20,100+mi'
    >>> head_spec(parse_head({"head": "mos", "components": 5, "bias": False, "mi": {"expansion": 2}}))
    'mos:5,bias=false+mi:expansion=2'
    """
    return grammar.write(config.unbuilt())


def build_head(config: HeadConfig, dimensions: Dimensions) -> Head:
    """The head of a config.

    Raises:
        ValueError: It cannot sit on such a model, or its parameters would not fit into memory.
    """
    return built(lambda: registry.get(config.head)(config, dimensions), f"head '{head_spec(config)}'")
