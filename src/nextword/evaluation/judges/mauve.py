"""MAUVE: similarity of the distributions of generated and human texts."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nextword.evaluation.judges.checkpoints import (
    find_checkpoint,
    is_blank,
    load_part,
    note_on_empty,
    padded_batches,
    token_limit,
)
from nextword.evaluation.judges.feature_cache import FeatureCache, key_of
from nextword.evaluation.metrics import Metric, MetricConfig, Sample, Score, Setup, UndefinedError, metric, registry
from nextword.results.records import Measure
from nextword.settings.config import Seed

FEW = 1000
"""With fewer texts than this, the metric's title has the note "few texts". MAUVE's authors advise 5,000 texts."""


PRESETS: dict[str, dict[str, Any]] = {
    "contrastive-decoding": {"model": "gpt2", "max_length": 256, "exact_length": 128},
}
"""Settings used in papers, by name. ``contrastive-decoding``: ``eval_script.py`` of Li et al. (2023)."""


class MauveConfig(MetricConfig):
    """Settings of MAUVE. The defaults are those of the package mauve-text."""

    model: str = "gpt2-large"
    """Folder or hub name of the language model whose hidden states are compared. In ``nextword compare``, "start" names
    the initial checkpoint."""
    max_length: int = Field(default=1024, ge=1)
    """Maximum number of tokens read per text, from its start; the model's limit if that is lower."""
    include_prompt: bool = False
    """Whether the prompt is prepended to generated and human texts."""
    buckets: Literal["auto"] | int = "auto"
    """Number of clusters of hidden states. "auto": a tenth of the number of texts, at least 2."""
    scaling: float = Field(default=5.0, gt=0)
    """The constant c of the divergence curve."""
    explained_variance: float = Field(default=0.9, gt=0, lt=1)
    """Share of the states' variance that the PCA before clustering keeps."""
    restarts: int = Field(default=5, ge=1, le=1000)
    """Number of k-means runs; the run with the smallest error is used."""
    iterations: int = Field(default=500, ge=1, le=100_000)
    """Maximum number of k-means iterations."""
    curve_points: int = Field(default=25, ge=2, le=100_000)
    """Number of points of the divergence curve."""
    seed: Seed = 25
    """Seed of the clustering."""
    exact_length: int | None = Field(default=None, ge=1)
    """Number of tokens to which generated and human texts are truncated. Shorter samples are left out. None: any
    length."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parse the argument of a spec such as ``mauve:contrastive-decoding``: the name of settings in ``PRESETS``."""
        if len(arguments) > 1 or not set(arguments) <= PRESETS.keys():
            raise ValueError(
                f"must be followed by the settings of a paper, {', '.join(PRESETS)} ({','.join(arguments)!r} given)"
            )
        return dict(PRESETS[arguments[0]]) if arguments else {}

    def arguments(self) -> list[str]:
        """The argument of a spec: the name of these settings in ``PRESETS``. Empty if they are not in ``PRESETS``."""
        given = self.model_dump(exclude={"metric"}, exclude_defaults=True)
        return [name for name, settings in PRESETS.items() if settings == given]


def mauve_of(
    human: Float[np.ndarray, "N D"], generated: Float[np.ndarray, "M D"], config: MauveConfig | None = None
) -> float:
    """MAUVE of ``human`` and ``generated`` texts, given one feature vector per text. 1 if the distributions are equal.

    P and Q are the histograms of human and generated texts over clusters of their features. MAUVE is the area under the
    curve with the points (exp(-c KL(Q|R)), exp(-c KL(P|R))) for all mixtures R of P and Q, with c = ``config.scaling``.
    The package mauve-text computes the histograms and the area.

    Raises:
        UndefinedError: If there are fewer than two human or fewer than two generated texts.

    Source: Pillutla et al. (2021).
    """
    config = config or MauveConfig(metric="mauve")
    if min(len(human), len(generated)) < 2:
        raise UndefinedError(
            f"MAUVE: {len(generated)} generated and {len(human)} human texts; clustering needs at least two of each"
        )
    if human.shape == generated.shape and np.array_equal(human, generated):
        return 1.0  # both histograms are the same for any clusters, so the area under the curve is 1
    from mauve import compute_mauve

    with _no_words_about_small_clusters():
        found = compute_mauve(
            p_features=human,
            q_features=generated,
            num_buckets=config.buckets,
            kmeans_explained_var=config.explained_variance,
            kmeans_num_redo=config.restarts,
            kmeans_max_iter=config.iterations,
            divergence_curve_discretization_size=config.curve_points,
            mauve_scaling_factor=config.scaling,
            seed=config.seed,
        )
    return float(found.mauve)


@contextmanager
def _no_words_about_small_clusters() -> Iterator[None]:
    # Faiss prints (from C++) that clusters have fewer than 39 points, which happens with "auto". The title says it
    # here. This minimum number of points affects only the message, and not the clusters.
    faiss: Any = importlib.import_module("faiss")
    published = faiss.Kmeans
    faiss.Kmeans = partial(published, min_points_per_centroid=1)
    try:
        yield
    finally:
        faiss.Kmeans = published


@registry.register("mauve")
class Mauve(Metric):
    """MAUVE: similarity of generated texts to human texts in a language model's hidden states. Example: ``mauve``."""

    Config = MauveConfig
    needs = ("text", "references")
    packages = ("mauve",)
    group, goal, decimals = metric.CLOSENESS, "higher", 3

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._features = LastTokenFeatures(self.config.model, self.config.max_length, setup, "mauve.model")
        self._human: list[str] = []
        self._generated: list[str] = []
        self._empty: list[bool] = []
        self._short: list[bool] = []

    @classmethod
    def on_request(cls) -> str | None:
        """Reason why ``metrics="all"`` leaves this metric out: it runs a large language model."""
        return "runs a large language model (mauve.model, gpt2-large by default); to compute it, name the metric"

    def add(self, sample: Sample) -> None:
        """Read the text and the first reference and, with the setting ``include_prompt``, the prompt."""
        prompt = sample.need("prompt", "mauve with include_prompt") if self.config.include_prompt else ""
        generated, human = sample.need("text", "mauve"), sample.need("references", "mauve")[0]
        self._empty.append(is_blank(generated))
        if self.config.exact_length is not None:
            cut = self._features.cut([generated, human], self.config.exact_length)
            self._short.append(cut is None)
            generated, human = cut or ("", "")
        for texts, text in ((self._generated, generated), (self._human, human)):
            if not is_blank(text):  # empty texts are left out, as in mauve-text
                # a space between prompt and text, unless one of them has white space there
                glue = " " if prompt and not prompt[-1].isspace() and not text[0].isspace() else ""
                texts.append(prompt + glue + text)

    def result(self) -> dict[str, Score]:
        """The score, with the key ``mauve``."""
        if not self._generated or not self._human:
            raise UndefinedError("MAUVE: no text" if not self._generated else "MAUVE: no human text")
        rows = self._features.of([*self._human, *self._generated])
        human, generated = rows[: len(self._human)], rows[len(self._human) :]
        value = mauve_of(human, generated, self.config)
        short = f"samples with too few tokens, which are left out: {sum(self._short)}" if any(self._short) else None
        note = short or note_on_empty(self._empty, "are left out")
        return {"mauve": Score(self._measure(min(len(human), len(generated))), value, len(generated), note=note)}

    def _measure(self, texts: int) -> Measure:
        config: MauveConfig = self.config
        buckets = "a tenth of the texts in clusters" if config.buckets == "auto" else f"{config.buckets} clusters"
        prompt = "prompt included" if config.include_prompt else "without prompt"
        exact = (
            f"truncated to {config.exact_length} tokens, shorter ones left out, "
            if config.exact_length is not None
            else ""
        )
        return self.measure(
            "MAUVE (few texts)" if texts < FEW else "MAUVE",
            "area, 0 to 1",
            f"MAUVE: closeness of the distributions of generated and human texts, from the last token's state in "
            f"{Path(config.model).name} ({prompt}, {exact}at most {config.max_length} tokens, {buckets}, "
            f"c = {config.scaling:g}, seed {config.seed}); its authors ask for thousands of texts.",
        )


# -- Features of texts from a language model: the hidden state of the last token in the last layer, as for MAUVE.


class LastTokenFeatures:
    """Computes the hidden state of each text's last token in the model's last layer, and stores the states in a cache.

    Args:
        name: Folder or hub name of a language model. For an encoder-decoder model, the encoder is used.
        max_length: Maximum number of tokens read per text, from its start; the model's limit if that is lower.

    Raises:
        ValueError: If the model does not exist.
    """

    def __init__(self, name: str, max_length: int, setup: Setup, setting: str = "model") -> None:
        self._found = find_checkpoint(name, setting)
        self._max_length, self._setup, self._setting = max_length, setup, setting

    def of(self, texts: Sequence[str]) -> Float[np.ndarray, "N D"]:
        """The hidden state of the last token of each of ``texts``, one row per text. Equal texts are computed once.

        Raises:
            ValueError: If a text has no tokens.
        """
        settings = {"model": self._found.fingerprint, "max_length": self._max_length}
        cache = FeatureCache(self._setup.cache, "last-token", settings, self._setup.progress)
        return cache.rows([key_of(text) for text in texts], partial(self._read, texts))

    def cut(self, texts: Sequence[str], length: int) -> list[str] | None:
        """Each of the ``texts`` cut to its first ``length`` tokens. None if one of them has fewer tokens."""
        rows = [self._tokenizer(text, truncation=True, max_length=length)["input_ids"] for text in texts]
        return [str(self._tokenizer.decode(ids)) for ids in rows] if min(map(len, rows)) == length else None

    @cached_property
    def _tokenizer(self) -> Any:
        import transformers

        return load_part(transformers.AutoTokenizer.from_pretrained, self._found, self._setting)

    def _read(self, texts: Sequence[str], missing: list[int]) -> Iterator[tuple[list[int], Float[np.ndarray, "B D"]]]:
        import torch
        import transformers

        model = load_part(transformers.AutoModel.from_pretrained, self._found, self._setting, dtype=torch.float32)
        reader = model.get_encoder() if model.config.is_encoder_decoder else model
        reader.to(self._setup.device).eval()
        limit = token_limit(model, self._tokenizer, self._max_length)
        encoded = {}
        for position in missing:
            ids = self._tokenizer(texts[position], truncation=True, max_length=limit)["input_ids"]
            if not ids:
                shown = repr(texts[position][:60])
                raise ValueError(
                    f"{self._setting}: text number {position + 1} must have at least one token of this model "
                    f"({shown} given)"
                )
            encoded[position] = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        for positions, fields in padded_batches(encoded, self._tokenizer, self._setup.batch_size, self._setup.device):
            with torch.inference_mode():
                states = reader(**fields).last_hidden_state
            last = fields["attention_mask"].sum(dim=1) - 1
            yield positions, states[torch.arange(len(positions), device=states.device), last].float().cpu().numpy()
