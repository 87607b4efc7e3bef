"""The base class of heads."""

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
"""Value of a setting that the head fits when it is attached, so that the model predicts nearly as well as before."""


ContextOf = Callable[[Int[Tensor, "M"]], Context]
"""A function that splits tokens into rows, runs the model on the rows, and returns the context at every position."""


class HeadConfig(SpecSettings):
    """Settings that every head has.

    The class attribute ``published`` maps each setting that is ``fitted`` by default to the paper's initial value.
    """

    head: str
    """Registered name of the head."""

    def as_published(self) -> Any:
        """These settings with the paper's value in place of each ``fitted``, as used for new small models."""
        open_ = {name: value for name, value in self.published.items() if getattr(self, name) == FITTED}
        return self.model_copy(update=open_) if open_ else self

    def to_fine_tune(self) -> Any:
        """These settings for training a pretrained model, with ``+mi:norm`` in place of ``+mi``.

        A head whose initial form cannot be trained well overrides this method.
        """
        mi = getattr(self, "mi", None)
        return self if mi is None else self.model_copy(update={"mi": mi.for_pretrained()})

    def with_raw_states(self) -> Any:
        """These settings with ``+mi:raw`` in place of ``+mi``, which earlier versions used for pretrained models."""
        mi = getattr(self, "mi", None)
        if mi is None or mi.normalize is not None:
            return self
        return self.model_copy(update={"mi": mi.model_copy(update={"normalize": False})})

    def is_met_by(self, other: HeadConfig) -> bool:
        """Whether ``other`` is equal to these settings, or to these settings after ``to_fine_tune``.

        ``+mi`` alone is equal to ``+mi:raw``. A setting that is ``fitted`` here may have any value in ``other``.
        """
        had = other.with_raw_states().model_dump()  # a built head with ``+mi`` alone does not normalise
        return any(_is_met(asked.model_dump(), had) for asked in (self.with_raw_states(), self.to_fine_tune()))

    def located(self) -> HeadConfig:
        """These settings with absolute paths of stored files, as saved with a model."""
        return self

    def unbuilt(self) -> HeadConfig:
        """These settings without the values that were filled in for one model when the head was built."""
        return self

    def over(self, former: HeadConfig | None) -> HeadConfig:
        """These settings, completed for a model whose head has the settings ``former`` (None: no head)."""
        return self


def _is_met(asked: dict[str, Any], had: dict[str, Any]) -> bool:
    return asked.keys() == had.keys() and all(asked[name] in (had[name], FITTED) for name in asked)


class CachedModule(nn.Module):
    """A module of a head that reads earlier positions or the source, and computes the tensors to cache for them.

    Values that depend on only one position are computed once, when the position is new, and cached. By default, a
    module caches the tensors of its children that are a ``CachedModule``.
    """

    remembers: bool = False
    """Whether the module reads earlier positions of the decoder's sequence, or caches values of the source."""
    reads_source: bool = False
    """Whether the module reads the encoder's tokens and states."""

    def streams(self, inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        """A mapping from names to tensors (B, T, ...) to cache, computed from the projections' ``inputs``."""
        return {name: kept for part in _cached_parts(self) for name, kept in part.streams(inputs).items()}

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        """A mapping from names to tensors (B, E, ...) to cache, computed from the encoder's last hidden ``states``."""
        return {name: kept for part in _cached_parts(self) for name, kept in part.source_streams(states).items()}


def _cached_parts(module: nn.Module) -> list[CachedModule]:
    return [part for part in module.children() if isinstance(part, CachedModule)]


class Head(nn.Module, ABC):
    """Computes a ``NextToken`` distribution from hidden states and cached positions.

    A concrete head is final (it has no subclasses), is in one file with its ``Config``, and is registered with
    ``@registry.register("name")``. Its projections read ``context.inputs``: the last state or, if its settings have a
    value for ``mi``, a vector from several layers and positions. A module that reads other positions must be an
    attribute of the head and a ``CachedModule``; then this class caches its values.

    Args:
        config: The head's settings.
        dimensions: Sizes of the backbone.

    Raises:
        ValueError: If the head does not support the model; the message says why.
    """

    Config: ClassVar[type[HeadConfig]]
    modes: ClassVar[tuple[str, ...]] = ("joint",)
    """Values of ``forward``'s ``mode``: ``joint`` is the whole distribution, each other mode a part of it alone."""
    adjustable: ClassVar[frozenset[str]] = frozenset()
    """Settings that can be changed on a built head, because parameters do not depend on these settings."""
    generate_takes: ClassVar[tuple[str, ...]] = ()
    """Subset of ``adjustable`` that ``generate`` also accepts as arguments, for one call."""

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
        """Number of last decoder layers that ``inputs`` reads."""
        return self.inputs.layers

    @property
    def remembers(self) -> bool:
        """Whether the head caches values between decoding steps: of earlier positions, or computed from the source."""
        return self.inputs.before > 0 or any(part.remembers for part in _cached_parts(self))

    @property
    def reads_source(self) -> bool:
        """Whether the head reads the encoder's tokens and states."""
        return any(part.reads_source for part in _cached_parts(self))

    @property
    def reads_words(self) -> bool:
        """Whether the head reads the token ids of earlier positions, so that embeddings as inputs are not enough."""
        by_parts = any(part.remembers and not part.reads_source for part in _cached_parts(self))
        return by_parts or (self.remembers and not self.reads_source and not self.inputs.before)

    @property
    def looks_back(self) -> int | None:
        """Number of earlier positions that the head reads, even in earlier windows; None: all in the current window."""
        return None

    def streams(self, states: Float[Tensor, "B T D"], inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        """A mapping from names to tensors (B, T, ...) to cache for later steps; token ids are always cached.

        ``states`` are the inputs of the output layer at the new positions, ``inputs`` those of the head's projections.
        """
        return {name: kept for part in _cached_parts(self) for name, kept in part.streams(inputs).items()}

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        """A mapping from names to tensors (B, E, ...) to cache, computed from the encoder's last hidden ``states``."""
        return {name: kept for part in _cached_parts(self) for name, kept in part.source_streams(states).items()}

    def with_settings(self, changes: Mapping[str, Any]) -> Any:
        """The head's settings with the values in ``changes``.

        Raises:
            ValueError: If a setting is unknown or not ``adjustable``, or its value is invalid or ``fitted``.
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
        """Changes some of the head's settings; raises ValueError like ``with_settings``."""
        self.config = self.with_settings(changes)

    @abstractmethod
    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """The distribution at every position of the context.

        Args:
            context: The input of the head.
            mode: One of ``modes``; None: the mode in the head's settings, or ``joint`` if it has no such setting.
        """

    def logits(self, distribution: NextToken) -> Float[Tensor, "N V"]:
        """The tensor that the model returns as ``logits``: by default the log-probabilities of ``distribution``."""
        return distribution.log_probs()

    def take_over(self, former: Head) -> None:
        """Called when this head is attached to a model with the head ``former``, which a ``WrapperHead`` may reuse."""

    def validate_backbone(self, context_of: ContextOf, weights_of: Callable[[], str | None]) -> None:
        """Called once when the head is attached or loaded, to reject a model that does not match the head's files.

        Args:
            context_of: See ``init_from_backbone``.
            weights_of: Returns the fingerprint of the backbone's weights, or None if it cannot be computed.

        Raises:
            ValueError: If the files were made with another model.
        """

    prove = validate_backbone  # its earlier name, which plug-ins call on their base class

    def open_stored(self) -> None:
        """Opens files that the head reads from disk; a serving engine calls this at startup, before the first request.

        Raises:
            ValueError: If the files do not exist or do not fit the model.
        """

    def expect_tokenizer(self, fingerprint_of: Callable[[], str | None]) -> None:
        """Called when the model's tokenizer may be known, to reject one that does not match the head's files.

        Args:
            fingerprint_of: Returns the tokenizer's fingerprint, or None if the tokenizer is unknown.

        Raises:
            ValueError: If the files were made with another tokenizer.
        """

    def init_from_backbone(self, context_of: ContextOf) -> None:
        """Called once when the head is attached, to initialise new parameters from the model's predictions.

        Args:
            context_of: Splits tokens into rows, runs the model on them, and returns the context at every position.
        """

    begin = init_from_backbone  # its earlier name, which plug-ins call on their base class

    def resized(self, vocab_size: int) -> None:
        """Called when the vocabulary size becomes ``vocab_size``; most heads store nothing that depends on it."""

    def draw(self, config: Any, *, sample: bool) -> Draw | None:
        """The choice that precedes the choice of a token in greedy search and sampling, such as the token's class.

        None: the token is chosen directly from the head's distribution.

        Args:
            config: The head's settings, with the values that this call of ``generate`` received.
            sample: Whether tokens are sampled at random.
        """
        return None

    def calibration(self) -> Calibration | None:
        """An object that reads a held-out text once and finds the best settings; None if no setting can be fitted."""
        return None

    def stored_texts(self) -> Mapping[str, StoredTexts]:
        """A mapping from the name of each component that retrieves tokens to the documents it retrieves from."""
        return {}

    def facts(self) -> dict[str, Any]:
        """A mapping from names, such as "classes", to numbers or texts about the built head, for a run's record."""
        return {}


@runtime_checkable
class Draw(Protocol):
    """A choice that precedes the choice of the token at every step of generation, such as the token's class."""

    def __call__(self, distribution: Any) -> Float[Tensor, "N V"]:
        """Makes the choice, and returns the log-probabilities of the tokens given this choice."""

    def token(self, distribution: Any, uniform: Float[Tensor, "N"] | None) -> Int[Tensor, "N"]:
        """Makes the choice, and returns the token; used if no logits processor changes the log-probabilities.

        ``uniform``: numbers in [0, 1) that select a sampled token; None: the most probable token is returned.
        """

    def redraw(self, rows: Bool[Tensor, "N"]) -> Float[Tensor, "N V"] | None:
        """Chooses again in each row where ``rows`` is True, because its first choice allowed no token.

        Returns the log-probabilities in these rows (-inf in all others), or None if one of them has no choice left.
        """


@runtime_checkable
class StoredTexts(Protocol):
    """Documents of a datastore or index, numbered as in ``NextToken.stands_in_store``."""

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        """Tokens of ``document`` from position ``first`` to ``last``, both included, and the first token's position.

        ``first`` may be before the beginning of the document, and ``last`` beyond its end.
        """


@runtime_checkable
class RemembersTokens(Protocol):
    """A head with stored tokens that are scored by similarity; the objective ``histalign`` requires such a head."""

    def entries(self, context: Context) -> CopyScores:
        """The stored tokens, with their similarity to every position of ``context``."""


registry: Registry[type[Head]] = Registry("head", Head)
"""All heads by name."""


# -- Parsing and writing head specs such as ``mos:3+mi``, and building the head of a config.

grammar = Grammar(registry, HeadConfig, "softmax", modifiers)


def parse_head(spec: str | Mapping[str, Any] | HeadConfig) -> HeadConfig:
    """Parses a head spec or a mapping of settings into a config; a config is returned unchanged.

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
        ValueError: If a name is unknown (the message has the nearest known one), the head does not accept a modifier,
            or a value is invalid.
    """
    return grammar.parse(spec)


def head_spec(config: HeadConfig) -> str:
    """The shortest spec that parses to ``config``, without the values that were filled in for one model.

    >>> head_spec(parse_head("mos:3+mi:1x3"))
    'mos:3+mi:1x3'
    >>> head_spec(parse_head("Softmax+Mi+CPR:100,20"))
    'softmax+cpr:20,100+mi'
    >>> head_spec(parse_head({"head": "mos", "components": 5, "bias": False, "mi": {"expansion": 2}}))
    'mos:5,bias=false+mi:expansion=2'
    """
    return grammar.write(config.unbuilt())


def build_head(config: HeadConfig, dimensions: Dimensions) -> Head:
    """Builds the head with the settings ``config``, for a model with the sizes ``dimensions``.

    Raises:
        ValueError: If the head does not support the model, or its parameters would not fit into memory.
    """
    return built(lambda: registry.get(config.head)(config, dimensions), f"head '{head_spec(config)}'")
