"""A configuration made small: sizes by the names of their fields, layers by their kinds.

The sizes fit each other (hidden size = heads x size of a head, twice as wide inside), so that what divides another in
the default configuration still does. Of the layers one of each kind stays, in their order: a hybrid stays one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

VOCABULARY = 128
"""Many more tokens than a state has numbers: f2 is fitted to the states of all of them."""
HIDDEN, HEADS, HEAD, INNER = 32, 4, 8, 64
POSITIONS = 128
WINDOW = 4
"""Sliding attention looks at fewer places than the texts have."""
PAD, START, END = 0, 1, 2


def _to(size: int) -> Callable[[int], int]:
    return lambda given: size


def _at_most(size: int) -> Callable[[int], int]:
    return lambda given: min(given, size)


SIZES: tuple[tuple[str, Callable[[int], int]], ...] = (
    (r"(^|_)vocab(_size)?($|_)", _to(VOCABULARY)),
    (r"topk_group|n_group$|num_expert_group|(^|_)n_groups$", _at_most(1)),
    # fewer places than a text has would be chosen by scores that are often equal, so by chance
    (r"index_topk$", _at_most(POSITIONS // 2)),
    (r"experts_per_tok|top_?k|moe_k$", _at_most(2)),
    (r"shared_experts$", _at_most(1)),
    (r"experts$|zero_expert_num", _at_most(4)),
    (r"^qk_head_dim$", _to(2 * HEAD)),
    (r"mamba_(n|num)_heads|ssm_heads", _at_most(INNER // HEAD)),
    (r"n?head_dim|head_size$|dim_head$|d_kv$|d_head$|^rotary_dim$|query_pre_attn_scalar", _to(HEAD)),
    (r"heads?(_per_layer)?$|heads_per_ngram", _at_most(HEADS)),
    (
        r"inner(_dim)?$|intermediate_(size|dim)|ffn_(dim|hidden_size)|d_?ff$|dim_ff$|mlp_dim|feed_forward_size|d_ssm",
        _to(INNER),
    ),
    (r"rank$", _at_most(HEAD)),
    (r"state_size$|d_state$", _at_most(HEAD)),
    (r"(position_embeddings|positions?|n_ctx|seq_?len(gth)?|context_length|model_max_length)$", _at_most(POSITIONS)),
    (r"max_pos_emb$", _at_most(POSITIONS)),
    (r"^(context_size|(attention_)?chunk_size)$", _at_most(8)),
    (r"filters$", _at_most(2)),
    (r"window(_size)?$", _at_most(WINDOW)),
    (
        r"hidden_(size|dim)|d_model$|(?<!pos_)embd?(_dim)?$|embed_dim$|embedding_(size|dim)|lru_width|proj_dim$|_width$|adapter_(in|out|input)_(dim|size)",
        _to(HIDDEN),
    ),
)
"""Patterns of the names of whole numbers, and what each becomes; the first that fits counts."""

LAYERS = re.compile(r"(^|_)(layers|n_layer|blocks|depth)$")
"""Names of fields that count layers."""
LABELS = ("id2label", "label2id")
MARKS = {"pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START}
EXCEPTIONS: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "exceptions.toml").read_text(encoding="utf-8")
)
"""What the rules do not get right: name to fields by their paths, and why."""


def size_of(name: str, given: int) -> int:
    """What a whole number becomes."""
    for pattern, change in SIZES:
        if re.search(pattern, name):
            return change(given)
    return given


def shrunk(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a configuration made small, and so those of the configurations in it."""
    kept = _kept_layers(settings)
    found = {name: _small(name, given, kept) for name, given in settings.items()}
    if isinstance(settings.get("per_layer_config"), dict):
        found["per_layer_config"] = _per_layer_config(settings["per_layer_config"], kept)
    return found


def _per_layer_config(given: dict[Any, Any], kept: dict[int, list[int]]) -> dict[int, Any]:
    """What single layers have of their own, for the layers that stay."""
    by_layer = {int(layer): own for layer, own in given.items()}
    (chosen,) = kept.values()
    return {new: shrunk(by_layer[old]) for new, old in enumerate(chosen) if old in by_layer}


def _small(name: str, given: Any, kept: dict[int, list[int]]) -> Any:
    if isinstance(given, dict):
        return given if name in LABELS else shrunk(given)
    if name.endswith(("_token_id", "_token_index")):
        return _mark(name, given)
    if isinstance(given, bool) or given is None or isinstance(given, str):
        return given
    if isinstance(given, int) and given > 0:
        return _count_of_layers(given, kept) if LAYERS.search(name) else size_of(name, given)
    if isinstance(given, list | tuple) and len(given) in kept:
        return [_small(name, given[index], {}) for index in kept[len(given)]]
    return given


def _mark(name: str, given: Any) -> Any:
    """A special token within the vocabulary: the usual ones at its start, all others at its end."""
    if name in MARKS:
        return MARKS[name]
    return VOCABULARY - 1 if isinstance(given, int) and given >= VOCABULARY else given


def _count_of_layers(given: int, kept: dict[int, list[int]]) -> int:
    return len(kept[given]) if given in kept else min(given, 2)


def _kept_layers(settings: dict[str, Any]) -> dict[int, list[int]]:
    """For each number of layers of which there are lists, the layers that stay: one of each kind, two at least."""
    found = {}
    counts = {given for name, given in settings.items() if isinstance(given, int) and LAYERS.search(name)}
    for count in sorted(counts - {0, 1}):
        kept: set[int] = set()
        for kinds in _per_layer(settings, count):
            kept |= {kinds.index(kind) for kind in kinds}
        if kept:
            more = (index for index in range(count) if index not in kept)
            found[count] = sorted(kept if len(kept) > 1 else kept | {next(more)})
    return found


def _per_layer(settings: dict[str, Any], count: int) -> Iterator[list[str]]:
    for given in settings.values():
        if isinstance(given, list | tuple) and len(given) == count:
            yield [str(one) for one in given]


def with_exceptions(settings: dict[str, Any], exceptions: dict[str, Any]) -> dict[str, Any]:
    """The settings with fields replaced by their paths, such as ``text_config.num_hidden_layers``."""
    for path, value in exceptions.items():
        *parents, name = path.split(".")
        inner = settings
        for parent in parents:
            inner = inner[parent]
        inner[name] = value
    return settings
