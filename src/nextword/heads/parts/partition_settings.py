"""Which partitions a head has: the settings, and the letters of ``+cepr:20,100`` that stand for them."""

from __future__ import annotations

from itertools import permutations, product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from nextword.heads.parts.head_modifiers import modifiers
from nextword.settings.config import Settings
from nextword.settings.specs import Modifier, ModifierEntry

Mode = Literal["assign", "add"]


def _ascending(sizes: Any) -> Any:
    whole = isinstance(sizes, (list, tuple)) and all(type(size) is int for size in sizes)
    return tuple(sorted(sizes)) if whole else sizes


class PartitionConfig(Settings):
    """Which partitions a head has. ``assign`` gives their words new scores, ``add`` adds to those they have."""

    context: bool = False
    """C: words that occurred before in the decoder's sequence."""
    encoder: bool = False
    """E: words of the source."""
    pointer: bool = False
    """P: local embeddings; their mean over a word's places joins the score of C and E, or alone that of the word."""
    rerank: Annotated[tuple[int, ...], BeforeValidator(_ascending)] = ()
    """R: candidates of each reranking step, in any order; the largest step goes first."""
    mode: Mode | None = None
    """How C, E and P change a score; None: assign, and add for P alone, as published."""
    rerank_mode: Mode = "assign"
    """How R changes a score."""
    candidates: Literal["previous", "initial"] = "previous"
    """Whether a reranking step takes its candidates from the scores that the step before left, or from the first."""
    include_current: bool = False
    """Whether the current token is a word of its own context (the paper's figure) or only earlier ones (published)."""

    @model_validator(mode="after")
    def _something(self) -> PartitionConfig:
        if not (self.context or self.encoder or self.pointer or self.rerank):
            raise ValueError("must have at least one of context, encoder, pointer and rerank")
        if any(size < 1 for size in self.rerank) or len(set(self.rerank)) < len(self.rerank):
            raise ValueError(f"rerank: must be different positive numbers of candidates ({self.rerank} given)")
        return self

    @property
    def word_mode(self) -> Mode:
        """How C, E and P change a score."""
        return self.mode or ("assign" if self.context or self.encoder else "add")


def _letters() -> tuple[str, ...]:
    """Every choice of letters in any order, the usual one first; ``d`` is another name of ``c``."""
    chosen = ["".join(choice) for choice in product(("", "c", "d"), ("", "e"), ("", "p"), ("", "r"))]
    spelled = ["".join(letters) for choice in chosen if choice for letters in permutations(choice)]
    return tuple(dict.fromkeys([*filter(None, chosen), *spelled]))


@modifiers.register("cepr", aliases=_letters())
class PartitionModifier(Modifier):
    """``+c``, ``+e``, ``+p``, ``+r:K`` and their combinations such as ``+cepr:20`` or ``+cpr:20,100``."""

    field: ClassVar[str] = "partition"
    usage: ClassVar[str] = "+ any of the letters c, e, p, r such as +cpr:20,100"
    entries: ClassVar[tuple[ModifierEntry, ...]] = (
        ModifierEntry(
            "+c", "Context: words that occurred before are scored by a query of their own.", "softmax+c", "c"
        ),
        ModifierEntry("+e", "Encoder: words of the source are scored by a query of their own.", "softmax+e", "e"),
        ModifierEntry(
            "+p", "Pointer: places of the text or source have embeddings, and score their words.", "softmax+p", "p"
        ),
        ModifierEntry(
            "+r:K", "Reranker: the K best tokens are scored again by a query of their own.", "softmax+r:20,100", "r"
        ),
        ModifierEntry("+cpr:K, ...", "Any of these letters together.", "softmax+cpr:20,100+mi", "cpr"),
    )

    @staticmethod
    def parse(name: str, arguments: list[str]) -> dict[str, Any]:
        """``cpr`` and ``["20", "100"]`` as settings."""
        if "r" not in name and arguments:
            raise ValueError(f"'+{name}' takes no arguments ({','.join(arguments)!r} given); only r has sizes")
        if "r" in name and not (arguments and all(size.isdecimal() and int(size) for size in arguments)):
            given = f"{','.join(arguments)!r} given" if arguments else "nothing given"
            raise ValueError(f"'+{name}' must be followed by numbers of candidates such as {name}:20,100 ({given})")
        parts = {"context": "cd", "encoder": "e", "pointer": "p"}
        found: dict[str, Any] = {part: True for part, letters in parts.items() if set(name) & set(letters)}
        return found | ({"rerank": tuple(int(size) for size in arguments)} if arguments else {})

    @staticmethod
    def write(value: PartitionConfig | None) -> tuple[str, list[str]] | None:
        """Settings as ``("cpr", ["20", "100"])``."""
        if value is None:
            return None
        parts = {"c": value.context, "e": value.encoder, "p": value.pointer, "r": bool(value.rerank)}
        return "".join(letter for letter, there in parts.items() if there), [str(size) for size in value.rerank]
