"""Measurements on ambiguous prompts: Acc@k, likelihood of the two words, rank, and example predictions."""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nextword.evaluation.metrics.accuracy import (
    float32_tolerance,
    hits_at_k,
    numerical_rank,
    relative_spectrum,
    singular_values,
)
from nextword.evaluation.metrics.statistics import bootstrap_ratio, wilson
from nextword.experiments.tasks.ambiguous_words import AmbiguousPrompt, Lexicon, PairSplit, data_text
from nextword.experiments.tasks.prompted_texts import top_words
from nextword.experiments.tasks.window_likelihood import measured_value
from nextword.inference.scoring.likelihood import ask, fill_id
from nextword.inference.scoring.opened_model import OpenedModel, Progress, batches
from nextword.inference.scoring.text_tokens import encode_answer, encode_prompt
from nextword.inference.scoring.word_probes import ProbeAnswer, WordProbe, answers, first_tokens, read_probes
from nextword.results.records import ExamplePrediction, MetricValue
from nextword.runtime.pretrained import token_label

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


KS = (1, 2, 5, 10, 25)
SPECTRUM_LENGTH = 200


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt with its token ids and the first token of each of its two correct words."""

    prompt: AmbiguousPrompt
    ids: list[int]
    wanted: tuple[int, int]


def encode(prompts: Sequence[AmbiguousPrompt], tokenizer: PreTrainedTokenizerBase) -> list[EncodedPrompt]:
    """Tokenize the prompts. A prompt is left out if two of its four words (correct or wrong) begin with the same token.

    Raises:
        ValueError: If no prompt is usable, e.g. with a character tokenizer.
    """
    rows = []
    for prompt in prompts:
        firsts = [encode_answer(tokenizer, prompt.text, word)[0] for word in (*prompt.words, *prompt.competitors)]
        if len(set(firsts)) == len(firsts):
            rows.append(EncodedPrompt(prompt, encode_prompt(tokenizer, prompt.text), (firsts[0], firsts[1])))
    if not rows:
        raise ValueError(
            f"ambiguous: tokenizer '{tokenizer.name_or_path}' must distinguish the four words of a prompt by their "
            f"first token (in all {len(prompts)} prompts two words share it). Use a word or subword tokenizer."
        )
    return rows


def expect_positions(prompts: Sequence[EncodedPrompt], model_config: Any) -> None:
    """Raise ValueError if a prompt has more tokens than the model has positions."""
    longest = max(len(row.ids) for row in prompts)
    positions = getattr(model_config, "max_position_embeddings", None) or longest
    if longest > positions:
        raise ValueError(
            f"task.distractors, task.pairs: must be so small that prompts have at most {positions} tokens, the "
            f"model's maximum ({longest} given); lower them, or raise task.start.block"
        )


def accuracy(
    model: NextWordModel, prompts: Sequence[EncodedPrompt], mode: str, batch_size: int, progress: Progress
) -> dict[str, MetricValue]:
    """Acc@k (``hits_at_k``) over all prompts, and over the prompts of each group ("places", "people").

    If ``mode`` is "joint", the mean loss on the two correct words is added, unless it is infinite.
    """
    parts, nats = [], []
    for part in batches(prompts, batch_size, progress):
        dist, _ = ask(model, [row.ids for row in part], fill_id(model), mode)
        log_probs, ids = dist.top_k(max(KS))
        # a token of probability 0 is not a prediction, even if its id is among the top k
        parts.append(torch.where(log_probs == -math.inf, -1, ids).cpu().numpy())
        if mode == "joint":
            targets = torch.tensor([row.wanted for row in part], device=ids.device)
            nats.append(-dist.log_prob(targets).double().cpu().numpy())
    ranked, prefix = np.concatenate(parts), "" if mode == "joint" else f"{mode}_"
    wanted = np.array([row.wanted for row in prompts])
    groups = np.array([row.prompt.group for row in prompts])
    metrics = {}
    for k in KS:
        hits = hits_at_k(ranked, wanted, k)
        metrics[f"{prefix}acc@{k}"] = _share(hits, "fraction of prompts")
        for group in sorted(set(groups)):
            metrics[f"{prefix}{group}_acc@{k}"] = _share(hits[groups == group], f"fraction of prompts about {group}")
    if nats:
        both = np.concatenate(nats)
        if np.isfinite(both).all():
            interval = bootstrap_ratio(both.sum(axis=1), np.full(len(both), 2.0))
            unit = "nats per target (ln 2 is perfect)"
            metrics["nll"] = measured_value(float(both.mean()), unit, both.size, interval)
    return metrics


def _share(hits: np.ndarray, unit: str) -> MetricValue:
    return measured_value(float(hits.mean()), unit, len(hits), wilson(int(hits.sum()), len(hits)))


def rank_and_spectrum(
    model: NextWordModel, prompts: Sequence[EncodedPrompt], max_rows: int, batch_size: int, progress: Progress
) -> tuple[dict[str, MetricValue], list[float] | None]:
    """Numerical rank and spectrum of a matrix of joint log-probabilities: at most ``max_rows`` rows, one per position.

    The positions are those of all prompts. If some rows have a probability of 0, whose logarithm is infinite, the
    number of these rows is given instead of the rank, and the spectrum is None.
    """
    stacked: list[np.ndarray] = []
    rows = 0
    for part in batches(prompts, batch_size, progress):
        dist, _ = ask(model, [row.ids for row in part], fill_id(model), "joint", everywhere=True)
        stacked.append(dist.log_probs()[: max_rows - rows].float().cpu().numpy())
        rows += len(stacked[-1])
        if rows >= max_rows:
            progress(1.0)
            break
    matrix = np.concatenate(stacked)
    zero = int(np.isinf(matrix).any(axis=1).sum())
    if zero:
        unit = "rows with a token of probability 0, so the log-probabilities have no rank"
        return {"rank_undefined": MetricValue(value=float(zero), unit=unit, n=len(matrix))}, None
    values = singular_values(matrix)
    size = f"{matrix.shape[0]} x {matrix.shape[1]} matrix"
    tolerances = {"rank@1e-3": (1e-3, "1e-3"), "rank@default": (float32_tolerance(*matrix.shape), "float32 default")}
    metrics = {
        name: MetricValue(
            value=float(numerical_rank(values, tolerance)),
            unit=f"singular values above {tolerance:.2g} ({text}) of the largest, {size}",
            n=len(matrix),
        )
        for name, (tolerance, text) in tolerances.items()
    }
    return metrics, relative_spectrum(values, SPECTRUM_LENGTH)


def example_predictions(
    model: NextWordModel,
    prompts: Sequence[EncodedPrompt],
    tokenizer: PreTrainedTokenizerBase,
    modes: Sequence[str],
    k: int = 3,
) -> list[ExamplePrediction]:
    """The top ``k`` tokens for one prompt per group in each of ``modes``, with contributions of the parts of the head.

    Such a part is a cache, for instance. The correct tokens are the first tokens of both correct words, as for Acc@k.
    """
    chosen = {row.prompt.group: row for row in reversed(prompts)}
    predictions = []
    for _, row in sorted(chosen.items(), reverse=True):
        for mode in modes:
            dist, _ = ask(model, [row.ids], fill_id(model), mode)
            top = top_words(dist, 0, k, tokenizer)
            expected = [token_label(tokenizer, token) for token in row.wanted]
            predictions.append(ExamplePrediction(prompt=row.prompt.text, expected=expected, setting=mode, top=top))
    return predictions


def mean_nll(model: NextWordModel, prompts: Sequence[EncodedPrompt], batch_size: int) -> float:
    """Mean loss, in nats, on the first tokens of both correct words. The minimum is ln 2: each has probability 1/2."""
    total = 0.0
    for part in batches(prompts, batch_size):
        dist, _ = ask(model, [row.ids for row in part], fill_id(model))
        total -= float(dist.log_prob(torch.tensor([row.wanted for row in part], device=model.device)).double().sum())
    return total / (2 * len(prompts))


def completion_accuracy(
    model: NextWordModel, probes: Sequence[tuple[str, str, str]], tokenizer: PreTrainedTokenizerBase, batch_size: int
) -> dict[str, MetricValue]:
    """For each relation, the share of prompts after which the model's most probable token begins a correct word.

    ``probes`` are triples of relation, prompt and correct word. Triples with the same relation and prompt are one
    prompt with several correct words, because a state may have several well-known cities.
    """
    completing: dict[tuple[str, str], set[int]] = {}
    for relation, prompt, word in probes:
        completing.setdefault((relation, prompt), set()).add(encode_answer(tokenizer, prompt, word)[0])
    hits: dict[str, list[bool]] = {}
    for part in batches(list(completing), batch_size):
        dist, _ = ask(model, [encode_prompt(tokenizer, prompt) for _, prompt in part], fill_id(model))
        guesses = dist.top_k(1)[1][:, 0].tolist()
        for (relation, prompt), guess in zip(part, guesses, strict=True):
            hits.setdefault(relation, []).append(guess in completing[relation, prompt])
    return {
        f"knows_{name}": _share(np.array(right), "fraction of statements completed")
        for name, right in sorted(hits.items())
    }


# -- Prompts with lists of words: whether one of the words, or none of them, is likely to come next.

PAPERS = "papers"
"""Value of ``task.probes`` for the prompts that are printed in the papers."""
LISTS = 50
"""Number of word lists that are put into each template."""


def probes(named: str | None, lexicon: Lexicon, splits: dict[str, PairSplit], seed: int) -> list[WordProbe]:
    """Prompts that list words: those of the papers (``named`` is ``PAPERS``) or of the file ``named``.

    If ``named`` is None, prompts are made from templates and the test words of ``lexicon``.
    """
    if named is None:
        return list(_of_lexicon(lexicon, splits, seed))
    return read_probes(None if named == PAPERS else named)


def usable(asked: Sequence[WordProbe], tokenizer: PreTrainedTokenizerBase) -> list[WordProbe]:
    """The prompts in ``asked`` with only words that ``tokenizer`` knows, and listed words with different first tokens.

    Raises:
        ValueError: If there is no such prompt.
    """
    found = [probe for probe in asked if _is_usable(probe, tokenizer)]
    if not found:
        raise ValueError(
            f"task.probes: must have words that tokenizer '{tokenizer.name_or_path}' knows and distinguishes (none of "
            f"{len(asked)} prompts has); set start.model to a model that knows them, or leave the key out"
        )
    return found


def _is_usable(probe: WordProbe, tokenizer: PreTrainedTokenizerBase) -> bool:
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in encode_prompt(tokenizer, probe.prompt)[1:]:
        return False
    try:
        return bool(first_tokens(tokenizer, probe))
    except ValueError:
        return False


def probe_metrics(
    model: NextWordModel, tokenizer: PreTrainedTokenizerBase, asked: Sequence[WordProbe], mode: str, batch_size: int
) -> dict[str, MetricValue]:
    """For each set of prompts in ``asked`` with equal ``name``, the mean total probability of the listed words.

    If these words are correct, also the mean entropy of their shares of this probability, divided by the entropy of
    equal shares.
    """
    by_name: dict[str, list[ProbeAnswer]] = {}
    for answer in answers(OpenedModel("", model, tokenizer), asked, mode=mode, batch_size=batch_size):
        by_name.setdefault(answer.probe.name, []).append(answer)
    prefix = "" if mode == "joint" else f"{mode}_"
    metrics = {}
    for name, said in by_name.items():
        masses = [answer.mass for answer in said]
        if not said[0].probe.copied:
            metrics[f"{prefix}{name}_repeated_mass"] = _mean(masses, "probability of the listed words, none right")
            continue
        metrics[f"{prefix}{name}_copied_mass"] = _mean(masses, "probability of the listed words, all right")
        spreads = [answer.spread for answer in said if answer.spread is not None]
        if spreads:
            metrics[f"{prefix}{name}_copied_spread"] = _mean(spreads, "entropy over that of equal shares")
    return metrics


def probe_examples(
    model: NextWordModel, tokenizer: PreTrainedTokenizerBase, asked: Sequence[WordProbe], modes: Sequence[str]
) -> list[ExamplePrediction]:
    """In each of ``modes``, top tokens after the first prompt of each ``name`` in ``asked``: one per listed word."""
    first: dict[str, WordProbe] = {}
    for probe in asked:
        first.setdefault(probe.name, probe)
    examples = []
    for probe in first.values():
        right = [token_label(tokenizer, token) for token in first_tokens(tokenizer, probe)] if probe.copied else []
        for mode in modes:
            dist, _ = ask(model, [encode_prompt(tokenizer, probe.prompt)], 0, mode)
            top = top_words(dist, 0, len(probe.words), tokenizer)
            examples.append(ExamplePrediction(prompt=probe.prompt, expected=right, setting=mode, top=top))
    return examples


def _mean(values: Sequence[float], unit: str) -> MetricValue:
    interval = bootstrap_ratio(np.array(values), np.ones(len(values)))
    return measured_value(float(np.mean(values)), unit, len(values), interval)


def _of_lexicon(lexicon: Lexicon, splits: dict[str, PairSplit], seed: int) -> Iterator[WordProbe]:
    words: dict[str, set[str]] = {}
    for relation in lexicon.relations:
        words.setdefault(relation.group, set()).update(chain.from_iterable(splits[relation.name].test))
    for entry in tomllib.loads(data_text("lists.toml"))["lists"]:
        rng, available = random.Random(f"{seed}/{entry['text']}"), sorted(words.get(entry["group"], ()))
        slots = entry["text"].count("{}")
        for _ in range(LISTS if len(available) >= slots else 0):
            listed = tuple(rng.sample(available, slots))
            yield WordProbe(entry["name"], entry["text"].format(*listed), listed, entry["copied"])
