"""kNN-LM: any head, mixed with the tokens that followed the nearest stored states."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from nextword.distribution import NextToken, PointerMixture, Retrieved
from nextword.functional.probability import at_least_float32
from nextword.heads.calibration import Calibration, CopyCalibration
from nextword.heads.context import Context
from nextword.heads.head import FITTED, ContextOf, Fitted, StoredTexts, registry
from nextword.heads.input_states import Dimensions
from nextword.heads.safe_start import MOST
from nextword.heads.wrapper_head import WrapperHead, WrapperHeadConfig, normalised_jointly
from nextword.retrieval import ExactSearch, FaissSearch, RecentKeys, StoredKeys
from nextword.retrieval.datastore.search import Search
from nextword.retrieval.datastore.stored_keys import StoreOrigin
from nextword.runtime.devices import precision_of

logger = logging.getLogger(__name__)

_ROWS = 256
"""Number of positions whose keys are scored together."""


class KnnConfig(WrapperHeadConfig):
    """Settings of the kNN head; all but ``below`` and ``mix`` can be changed on a trained model."""

    published: ClassVar[Mapping[str, Any]] = {"weight": 0.25}

    folder: ClassVar[str | None] = "store"
    head: Literal["knn"] = "knn"
    store: str | None = None
    """Folder written by ``nextword datastore build``, or by ``nextword states build`` for running text; None: only
    texts that are added during use."""
    k: int = Field(default=32, ge=1, le=10_000)
    """Number of nearest keys to retrieve."""
    mix: Literal["fixed", "gate", "joint"] = "fixed"
    """How retrieved tokens are mixed with the head below: with a fixed weight (``fixed``), with a learned weight that
    depends on the confidence of the retrieval (``gate``), or jointly normalised (``joint``)."""
    weight: Annotated[float, Field(ge=0, le=1)] | Fitted = FITTED
    """Weight of the retrieved tokens with ``mix=fixed``, or their initial weight with ``mix=gate``. ``fitted``: 0.03,
    which costs at most 0.031 nats per token; ``nw.calibrate`` finds a better weight. Published: 0.25."""
    distance: Literal["euclidean", "dot"] | None = None
    """Measure of nearness of keys. None: the dot product if ``mix`` is ``joint`` (as in TRIME), otherwise Euclidean
    distance."""
    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Number that similarities are divided by. A larger number makes the distribution of retrieved tokens flatter."""
    overlap: int = Field(default=16, ge=0, le=1000)
    """A key of ``store`` is left out, as probably from the text being read, if the ``overlap`` tokens that precede the
    key's token equal the last ``overlap`` tokens of that text. If either text has fewer tokens up to there, only these
    are compared. 0: no key is left out."""
    index: str | None = None
    """None: exact search. Otherwise search with the FAISS index of the datastore; the value is the index's search
    parameters, such as ``nprobe=32``, or ``default``."""

    @property
    def by_dot(self) -> bool:
        # scores from a squared distance are at most 0, so they would have no weight beside the scores of a softmax
        return self.distance == "dot" or (self.distance is None and self.mix == "joint")


@registry.register("knn")
class KnnHead(WrapperHead):
    """The distribution of any head, mixed with the tokens that followed the k stored states nearest to the current one.

    Formula: each stored state ``k_j`` (key) has the token ``x_j`` that followed it. The k keys nearest to the state
    ``h_t`` have scores ``s_j = -|h_t - k_j|² / (tau sqrt(D))``, or ``h_t . k_j / (tau sqrt(D))`` for the dot product.
    With the temperature tau, the weight lambda and the distribution P_below of the wrapped head (the head below)::

        P(w) = (1 - lambda) P_below(w) + lambda sum_{j: x_j = w} exp s_j / sum_j exp s_j

    With ``mix=gate`` lambda is ``sigmoid(a . c_t + b)``, where ``c_t`` are two measures of the retrieval's confidence.
    With ``mix=joint`` the k tokens and the softmax of the head below are normalised together, as in a cache.

    Expresses: tokens that followed similar contexts in a corpus, without training. ``NextToken.stands_in_store``
    returns their positions. Costs: one search per position; no parameters except the three of ``mix=gate``.

    A FAISS index may miss some of the nearest keys. Scores of the retrieved keys are always computed exactly, from the
    keys.

    Source: Khandelwal et al. 2020 (kNN-LM); TRIME, Zhong et al. 2022 (external memory, mix=joint); Grave et al. 2017
    (unbounded cache).

    Differs from the published code: keys are inputs of the output layer, not of the last feed-forward layer; scores are
    divided by sqrt(D); keys of the text being read are left out.

    Examples:
        >>> from nextword.heads import parse_head
        >>> parse_head("knn:below=mos,k=8").k
        8
    """

    Config = KnnConfig
    adjustable: ClassVar[frozenset[str]] = frozenset(
        {"store", "k", "weight", "distance", "temperature", "overlap", "index"}
    )

    label = "knn"
    opened_by = ("store", "index", "by_dot")

    def __init__(self, config: KnnConfig, dimensions: Dimensions) -> None:
        # joint normalisation needs the joint form of the head below, if that is a cache
        super().__init__(config.over_published() if config.mix == "joint" else config, dimensions)
        self.mixing = ConfidenceGate(config.as_published().weight) if config.mix == "gate" else None
        self.recent: RecentKeys | None = None
        """Keys of texts added during use; None if there are none."""
        self._search: Search | None = None
        self._weights: set[str] = set()

    def init_from_backbone(self, context_of: ContextOf) -> None:
        """Initialises the head below, and sets ``weight`` to 0.03 if it is ``fitted``."""
        super().init_from_backbone(context_of)
        if self.config.weight == FITTED:
            self.config = self.config.model_copy(update={"weight": MOST})
            if self.mixing is not None:
                self.mixing.start_from(MOST)

    @property
    def reads_past(self) -> bool:  # type: ignore[override]
        """Whether tokens of the text being read are needed, to leave out keys from this text (``overlap``)."""
        return self.config.store is not None and self.config.overlap > 0

    def validate_backbone(self, context_of: ContextOf, weights_of: Callable[[], str | None]) -> None:
        """Raises ValueError if the states in the datastore are not similar to those of this model.

        If they are similar, but the model that made them had other weights, a warning is logged.
        """
        super().validate_backbone(context_of, weights_of)
        own = weights_of()
        self._weights = set() if own is None else {own}
        store = self.store()
        if store is None or (own is not None and own == store.manifest.origin.model_fingerprint):
            return  # the same weights make the same states
        store.expect_states(context_of(torch.tensor(store.manifest.probe)).states)
        if not self._known(store.manifest.origin):
            logger.warning(
                "store: '%s' was made with other weights of this model; it is used, because their states are "
                "similar. After training, build it again.",
                store.folder,
            )
            self._weights.add(str(store.manifest.origin.model_fingerprint))

    def _known(self, origin: StoreOrigin) -> bool:
        """Whether a datastore is known to be made with these weights, if they can be compared."""
        return not self._weights or origin.model_fingerprint in {None, *self._weights}

    def _open(self) -> StoredKeys:
        config = self.config
        keys, euclidean = StoredKeys(config.store), not config.by_dot
        self._expect_fits(keys)
        self._search = ExactSearch(keys, euclidean)
        if config.index is not None:
            self._search = FaissSearch(keys, "" if config.index == "default" else config.index, euclidean)
        return keys

    def _expect_fits(self, keys: StoredKeys) -> None:
        origin, own = keys.manifest.origin, self.dimensions
        for name, theirs, ours in (
            ("width", origin.width, own.hidden),
            ("vocabulary", origin.vocab_size, own.vocab_size),
        ):
            if theirs != ours:
                raise ValueError(
                    f"store: must have the model's {name} of {ours:,} ('{keys.folder}' has {theirs:,}, of "
                    f"'{origin.model}'); build a store with this model"
                )
        if not self._known(origin):
            raise ValueError(
                f"store: must be made with the same weights ('{keys.folder}' was made with '{origin.model}', which has "
                "other weights); build a store with this model, or attach knn again, which checks whether states are "
                "similar enough"
            )
        if self.config.k > len(keys):
            raise ValueError(
                f"k: must be at most the {len(keys):,} keys of '{keys.folder}' ({self.config.k:,} given); take fewer"
            )

    def stretch(self, document: int, first: int, last: int) -> tuple[list[int], int]:
        store: StoredKeys | None = self.store()
        before = 0 if store is None else store.manifest.documents
        if store is not None and document < before:
            return store.stretch(document, first, last)
        assert self.recent is not None
        return self.recent.stretch(document - before, first, last)

    def stored_texts(self) -> Mapping[str, StoredTexts]:
        return {**self.below.stored_texts(), self.component: self}

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        below: NextToken = self.below(context)
        if mode == "below":
            return below
        found = self._retrieved(context)
        found = replace(found, scores=found.scores / self.config.temperature)
        if self.config.mix == "joint":
            return normalised_jointly(below, {self.component: found}, "knn: mix=joint")
        if self.mixing is not None:
            logit = self.mixing(found)
            return PointerMixture(below, found, F.logsigmoid(-logit), F.logsigmoid(logit), self.component)
        weight = self.config.as_published().weight
        of_below, of_found = found.scores.new_tensor([1 - weight, weight]).log()[:, None].expand(2, len(found.scores))
        return PointerMixture(below, found, of_below, of_found, self.component)

    def calibration(self) -> Calibration | None:
        """Calibrates the temperature and, with ``mix=fixed``, the weight; None with ``mix=gate``, which is trained."""
        if self.config.mix == "gate":
            return None
        joint = self.config.mix == "joint"

        def parts(context: Context) -> tuple[NextToken, Retrieved]:
            below = self.below(context)
            below = normalised_jointly(below, {}, "knn: mix=joint") if joint else below
            return below, self._retrieved(context)

        return CopyCalibration(parts, interpolated=not joint, joint=joint)

    def _retrieved(self, context: Context) -> Retrieved:
        """The retrieved entries, with scores at temperature 1."""
        keys, searched = self.store(), None
        if keys is not None:  # the store is searched once for all positions
            assert self._search is not None
            searched = (
                keys,
                self._search.nearest(at_least_float32(context.states.detach()), self.config.k).cpu().numpy(),
            )
        every = torch.arange(len(context.states))
        parts = [self._found(context, rows, searched) for rows in torch.split(every, _ROWS)]
        return Retrieved.of(*map(torch.cat, zip(*parts, strict=True)))

    def _found(
        self, context: Context, rows: Int[Tensor, "M"], searched: tuple[StoredKeys, Int[np.ndarray, "N K"]] | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ids, scores, visibility and positions of the entries retrieved for some positions."""
        queries = at_least_float32(context.states[rows.to(context.states.device)])
        found, before = [], 0
        if searched is not None:
            keys, numbers = searched[0], searched[1][rows.numpy()]
            before = keys.manifest.documents
            visible = numbers >= 0
            if self.reads_past:
                visible &= ~self._of_the_text_itself(context, rows, keys, numbers)
            found.append(self._scored(queries, keys, numbers, visible, 0))
        recent = self.recent  # another thread may replace it
        if recent is not None and len(recent):
            search = ExactSearch(recent, not self.config.by_dot)
            numbers = search.nearest(queries.detach(), self.config.k).cpu().numpy()
            found.append(self._scored(queries, recent, numbers, numbers >= 0, before))
        if not found:
            ids = torch.zeros(len(rows), 1, dtype=torch.long, device=queries.device)
            return ids, queries.new_zeros(ids.shape), ids.bool(), ids.new_zeros(*ids.shape, 2)
        if len(found) == 1:
            return found[0]
        ids, scores, visible, stands = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        best = scores.detach().masked_fill(~visible, -torch.inf).topk(self.config.k).indices
        stands = stands.gather(1, best[:, :, None].expand(-1, -1, 2))
        return ids.gather(1, best), scores.gather(1, best), visible.gather(1, best), stands

    def _scored(
        self,
        queries: Float[Tensor, "M D"],
        keys: StoredKeys | RecentKeys,
        numbers: Int[np.ndarray, "M K"],
        visible: Bool[np.ndarray, "M K"],
        first_document: int,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tokens, exact scores and positions of the keys with these numbers."""
        flat, device = numbers.clip(0).ravel(), queries.device
        vectors = torch.from_numpy(keys.keys_at(flat)).to(device, queries.dtype).view(*numbers.shape, keys.width)
        if self.config.by_dot:
            scores = (vectors @ queries[:, :, None])[:, :, 0]
        else:
            scores = -(queries[:, None] - vectors).square().sum(-1)
        scores = scores / math.sqrt(queries.shape[1])
        ids = torch.from_numpy(keys.tokens_at(flat)).to(device).view(numbers.shape)
        stands = torch.from_numpy(keys.positions_at(flat)).to(device).view(*numbers.shape, 2)
        stands = stands + stands.new_tensor([first_document, 0])
        return ids, scores, torch.from_numpy(visible).to(device), stands

    def _of_the_text_itself(
        self, context: Context, rows: Int[Tensor, "M"], keys: StoredKeys, numbers: Int[np.ndarray, "M K"]
    ) -> Bool[np.ndarray, "M K"]:
        """Whether keys follow the same tokens as the position, as in the text being read or a copy of it."""
        assert context.memory is not None
        ids = context.memory.ids.cpu().numpy()
        known = context.memory.valid.cpu().numpy() & (ids != keys.start)  # neither padding nor the start token
        row = context.row.cpu().numpy()[rows.numpy()][:, None]
        position = context.position.cpu().numpy()[rows.numpy()][:, None]
        offset = keys.positions_at(numbers.clip(0).ravel()).reshape(*numbers.shape, 2)[..., 1]
        same, own = numbers >= 0, np.zeros(numbers.shape, dtype=bool)
        for back in range(self.config.overlap):
            at = np.maximum(position - back, 0)
            there = (position - back >= 0) & known[row, at] & (offset > back)
            own |= same & ~there  # one of the two texts begins here, and all later tokens are equal
            same &= there
            if not same.any():
                break
            token = np.full(numbers.shape, -1)
            token[same] = keys.tokens_at(numbers[same] - 1 - back)
            same &= token == ids[row, at]
        return own | same


# -- The learned weight with which retrieved tokens are mixed with the head below.


class ConfidenceGate(nn.Module):
    """Computes the weight of the retrieved tokens at each position.

    The weight depends on the nearest key's score and the largest probability of a retrieved token. There are three
    learned parameters. The initial weight is ``weight`` at every position, or 0.5 if ``weight`` is 0 or 1.
    """

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1)
        self.start_from(weight)

    def start_from(self, weight: float) -> None:
        self._begin = math.log(weight) - math.log1p(-weight) if 0 < weight < 1 else 0.0
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, self._begin)

    def forward(self, found: Retrieved) -> Float[Tensor, "N"]:
        """The logit of the weight at each position."""
        logit: Tensor = self.linear(self._confidence(found).to(precision_of(self.linear)))[:, 0]
        return logit.to(found.scores.dtype)

    @staticmethod
    @torch.no_grad()
    def _confidence(found: Retrieved) -> Float[Tensor, "N 2"]:
        """Score of the nearest key, its size as a logarithm; and the share of the most probable token."""
        seen, (relative, peak) = found.any_visible(), found.relative()
        share = relative.by_position().exp()
        same = (found.ids[:, :, None] == found.ids[:, None, :]).to(share.dtype)
        agreed = (same @ share[:, :, None])[:, :, 0].amax(1) / share.sum(1).clamp_min(1e-30)
        columns = torch.stack([peak.sign() * peak.abs().log1p(), agreed], 1)
        return columns.masked_fill(~seen[:, None], 0.0)
