"""Scores texts with one model or several."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nextword.conditioning.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.evaluation.metrics.statistics import (
    Statistic,
    bootstrap_intervals,
    holm,
    paired_tests,
)
from nextword.inference.scoring.breakdowns import Breakdown
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement.block_sums import TOKENS, BlockSums, Units
from nextword.inference.scoring.measurement.data_files import ChangedError, GivenTexts
from nextword.inference.scoring.measurement.model_passes import ModelPasses, Watch, describe
from nextword.inference.scoring.measurement.score_checkpoint import CHUNK_BYTES, NAME, ScoreCheckpoint, chunks
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.scored_texts import limited
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, expect_tokenizer
from nextword.results.records import Environment, locked
from nextword.results.records.measured_values import MetricValue
from nextword.results.records.score_results import (
    BreakdownMeaning,
    GroupScore,
    ModelScore,
    ScoreDifference,
    ScoreResults,
)
from nextword.runtime.files import replacing
from nextword.runtime.workers import Workers, workers
from nextword.settings.call_forms import CallForms
from nextword.settings.config import validated

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


WRITING_SECONDS = 60.0
"""Seconds to wait for another process that writes its scores into the same folder."""

LONGEST_PATH = 255
"""Maximum length in characters of a text that is checked for being a file name by mistake."""


@CallForms(renamed={"places": "positions"})
def score(  # noqa: PLR0913  (its options)
    model: AnyModel | Mapping[str, AnyModel],
    tokenizer: PreTrainedTokenizerBase | Mapping[str, PreTrainedTokenizerBase] | None = None,
    texts: str | Example | Sequence[str | Example] = (),
    *,
    window: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
    limit: int | None = None,
    counts: str | Path | None = None,
    span: int = 3,
    positions: int = 5,
    auxiliary_tokenizer: AuxiliaryTokenizer | None = None,
    tokens: str | Path | None = None,
    out: str | Path | None = None,
    processes: int | None = None,
    progress: Watch | None = None,
) -> ScoreResults:
    """Scores texts with a model: perplexity, nats per token and bits per byte, overall and by group of tokens.

    Every token is scored once. A text longer than the model's window is scored in overlapping windows. Then each token
    after the first window has at least ``window - stride`` tokens before it.

    Args:
        model: A model of nextword or transformers, or its folder or hub name. A dictionary from name to model
            compares the models on the same texts.
        tokenizer: Tokenizer of all models, or a dictionary from model name to tokenizer. None for folders, which
            contain a tokenizer.
        texts: One text or several, scored separately. An ``Example`` can also have a prompt, source or auxiliary text.
        window: Number of tokens that a model sees at once. None: the model's number of positions, at most 4,096, or
            1,024 if the model has no limit.
        stride: Number of new tokens that each window after the first scores; None: half of the window.
        batch_size: Number of windows per forward pass.
        limit: Approximate number of tokens to score from the beginning of the texts, in tokens of the first model. All
            models score the same texts. None: all tokens.
        counts: File of ``nextword count`` for the groups of frequent and rare tokens; None: counts of the scored texts.
        span: Smallest length in tokens of a copied span, which is a sequence that the model has read before.
        positions: Number of earlier positions listed for each token in the file ``tokens``, if the head copies from
            positions: those that contribute most to the token's probability.
        auxiliary_tokenizer: Tokenizer of auxiliary texts, for models with a conditioner.
        tokens: File for the scores of every token, one JSON object per line; None: not written.
        out: Folder for score.json; None: not written. Unless ``tokens`` is given, sums are saved there every half
            minute. If the process is killed, the same call then resumes, with the same result.
        processes: Number of processes, each with its own copy of the model and one thread; None: only this process.
        progress: Function that receives a model's name (while tokens are counted, ``NAME: token counts``) and the
            finished share of the texts, from 0 to 1.

    Returns:
        The scores of each model with 95 % intervals, overall and by group of tokens, and the differences between
        models with paired tests. ``print`` shows a table. For one model, the results have ``nll`` and ``perplexity``.

    Raises:
        ValueError: If ``texts`` is empty, one of ``texts`` cannot be scored (it has no tokens or too many, lacks the
            source or auxiliary text that a model reads, or has a token that a model does not know), a setting is
            invalid, weights are NaN, processes are given for a model in memory, or ``out`` has an unfinished score of
            other texts or models.
        DiskFullError: If there is not enough disk space.

    Examples:
        >>> import nextword as nw
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"<eos>": 0, "the": 1, "king": 2, "sat": 3, "and": 4}))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>")
        >>> config = GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
        >>> gpt2 = GPT2LMHeadModel(config)
        >>> both = {"plain": gpt2, "cache": nw.attach(gpt2, "cache")}
        >>> result = nw.score(both, tokenizer, ["the king sat and the king sat", "the king and the king"])
        >>> [(one.name, one.tokens) for one in result.models]
        [('plain', 12), ('cache', 12)]
        >>> result.models[0].breakdowns["repetition"][0].tokens
        7
    """
    name_of_one = Path(model).name if isinstance(model, str | Path) else type(model).__name__
    models = dict(model) if isinstance(model, Mapping) else {name_of_one: model}
    tokenizers = tokenizer if isinstance(tokenizer, Mapping) else dict.fromkeys(models, tokenizer)
    for one in tokenizers.values():
        expect_tokenizer(one)
    missing = [name for name in models if name not in tokenizers]
    if missing or not models:
        raise ValueError(f"tokenizer: must have one for each model ({', '.join(missing) or 'no model'} has none)")
    in_memory = next((type(one).__name__ for one in models.values() if not isinstance(one, str | Path)), None)
    if processes is not None and in_memory is not None:
        raise ValueError(
            f"processes: must be left out for a model in memory ({in_memory} given); save it and give its folder"
        )
    opened = [partial(OpenedModel.of, one, tokenizers[name], auxiliary_tokenizer, name) for name, one in models.items()]
    settings = {
        "window": window,
        "stride": stride,
        "batch_size": batch_size,
        "limit": limit,
        "counts": counts,
        "span": span,
        "positions": positions,
    }
    texts_given = GivenTexts.of(given_examples(texts), ["texts"])
    return score_models(
        opened,
        texts_given,
        validated(ScoreSettings, settings),
        tokens=tokens,
        progress=progress,
        out=out,
        processes=processes,
    )


def given_examples(texts: str | Example | Sequence[str | Example]) -> list[Example]:
    """Makes a list of examples from ``texts``. An example without ``id`` gets its number as ``id``, such as "text 1".

    Raises:
        ValueError: If ``texts`` is neither a text nor a list, or one of the texts is the path of an existing file.
    """
    try:
        given = [texts] if isinstance(texts, str | Example) else list(texts)
    except TypeError:
        raise ValueError(f"texts: must be a text or a list of texts ({type(texts).__name__} given)") from None
    for text in given:  # the command line takes file names; this function would score the name itself as a text
        if isinstance(text, str) and 0 < len(text) < LONGEST_PATH and "\n" not in text and os.path.isfile(text):
            raise ValueError(
                f"texts: must be texts, not files ('{text}' given, which is a file); read it: "
                f"Path('{text}').read_text(), or use the command: nextword score MODEL {text}"
            )
    examples = [one if isinstance(one, Example) else Example(one) for one in given]
    return [replace(one, id=one.id or f"text {number}") for number, one in enumerate(examples, 1)]


def score_models(
    models: Iterable[Callable[[], OpenedModel]],
    given: GivenTexts,
    settings: ScoreSettings,
    *,
    tokens: str | Path | None = None,
    out: str | Path | None = None,
    processes: int | None = None,
    progress: Watch | None = None,
    command: str = "",
) -> ScoreResults:
    """Scores texts as ``score`` does, but opens the models one by one, so that only one of them is in memory.

    Each function in ``models`` opens one model, and must be picklable if ``processes`` is given. ``given`` has the
    texts. ``settings`` has the options of ``score`` from ``window`` to ``positions``. ``command`` is the command line
    that reproduces the results, and is saved with them. Other arguments are those of ``score``.
    """
    began = {"data": given.digest, "settings": settings.model_dump(mode="json"), "chunk": CHUNK_BYTES}
    folder = None if out is None else Path(out)
    sums: dict[str, BlockSums] = {}
    scores: list[ModelScore] = []
    breakdowns: tuple[Breakdown, ...] = ()
    with ExitStack() as held:
        file = None if tokens is None else held.enter_context(replacing(tokens))
        checkpoint: ScoreCheckpoint | None = None
        for place, open_one in enumerate(models):
            asked = workers(open_one, processes)
            ((about, identity),) = asked.answers([partial(describe, settings)])
            name = about["name"]
            if checkpoint is None:  # only once the first model is known to fit, so that a mistake leaves no folder
                checkpoint = held.enter_context(_kept(folder, tokens is None, began, command))
                given = given if settings.limit is None else _limited(asked, given, settings.limit)
            state = checkpoint.of_model(place, identity, name)
            passes = ModelPasses(asked, name, given, settings, partial(checkpoint.put, place), progress)
            state, breakdowns = passes.breakdowns(state)
            state = passes.scored(state, breakdowns, file)
            assert state.sums is not None
            sums[name] = state.sums
            scores.append(_model_score(about, state.sums))
            del asked, passes  # frees this model before the next model is opened
        units = Units.of(given)
        results = ScoreResults(
            command=command,
            data=given.data,
            fields=given.fields,
            texts=given.texts,
            bytes=given.bytes,
            empty=given.empty,
            unit=units.name,
            units=units.count,
            models=scores,
            same_tokens=same_tokens(sums),
            breakdowns={one.key: BreakdownMeaning(title=one.title, meaning=one.meaning) for one in breakdowns},
            differences=differences(sums),
            settings=settings.model_dump(mode="json"),
            environment=Environment.collect(),
        )
        if folder is not None:
            with nullcontext() if tokens is None else locked(folder, command, wait=WRITING_SECONDS):
                results.save(folder / "score.json")
        if checkpoint is not None:
            checkpoint.remove()
    return results


@contextmanager
def _kept(folder: Path | None, keeps: bool, began: Mapping[str, Any], command: str) -> Iterator[ScoreCheckpoint]:
    """Locks the folder against other processes, and saves the sums when the block ends, also after an error."""
    if folder is None or not keeps:
        yield ScoreCheckpoint(None, began)
        return
    with locked(folder, command):
        checkpoint = ScoreCheckpoint(folder / NAME, began)
        try:
            yield checkpoint
        except ChangedError:
            checkpoint.remove()  # a text has changed, and the sums may include the changed text
            raise
        except BaseException:
            checkpoint.save_all()
            raise


def _limited(asked: Workers[OpenedModel], given: GivenTexts, limit: int) -> GivenTexts:
    found: list[Example] = []
    for chunk in chunks(given.examples):
        ((examples, limit),) = asked.answers([partial(limited, examples=chunk.examples, limit=limit)])
        found += examples
        if not limit:
            break
    return replace(GivenTexts.of(found, given.data, given.fields), empty=given.empty)


def _model_score(about: dict[str, Any], sums: BlockSums) -> ModelScore:
    found, undefined = values(sums)
    measured = {
        "reads": [*["prompt"] * (sums.prompts > 0), *about["reads"]],
        "tokens": int(sums.tokens.sum()),
        "impossible": sums.impossible_tokens,
        "cut_sources": sums.cut_sources,
        "values": found,
        "undefined": undefined,
        "breakdowns": group_scores(sums),
    }
    return ModelScore(**about | measured)


# -- The values of one model with their intervals, for all tokens and by group.

UNITS = {
    "perplexity": "per token (of the model's tokenizer)",
    "nll": "nats per token (of the model's tokenizer)",
    "bits_per_byte": "bits per byte (UTF-8)",
}
LARGEST = math.log(np.finfo(np.float64).max)
"""Nats per token above which a perplexity overflows."""


def values(sums: BlockSums) -> tuple[dict[str, MetricValue], dict[str, str]]:
    """Computes perplexity, nats per token and bits per byte from ``sums``.

    The first result maps keys of ``UNITS`` to the finite values with intervals. The second maps the other keys to the
    reasons why their values are not finite.
    """
    statistics = {"perplexity": sums.perplexity(), "nll": sums.nll(), "bits_per_byte": sums.bits_per_byte()}
    number, total = sums.impossible_tokens, int(sums.tokens.sum())
    if number:
        have = "token has" if number == 1 else "tokens have"
        return {}, dict.fromkeys(statistics, f"infinite, because {number:,} of {total:,} {have} probability 0")
    undefined = {}
    if statistics["nll"].value > LARGEST:
        del statistics["perplexity"]
        undefined["perplexity"] = f"exp({statistics['nll'].value:,.0f}) is too large for a number"
    counts = {"perplexity": total, "nll": total, "bits_per_byte": int(sums.text_bytes.sum())}
    with np.errstate(over="ignore"):
        intervals = bootstrap_intervals(list(statistics.values()))
    found = {}
    for (key, statistic), interval in zip(statistics.items(), intervals, strict=True):
        low, high = interval or (None, None)
        found[key] = MetricValue(value=statistic.value, unit=UNITS[key], n=counts[key], low=low, high=high)
    return found, undefined


def group_scores(sums: BlockSums) -> dict[str, list[GroupScore]]:
    """Returns a mapping from the key of each ``Breakdown`` to the scores of its groups, without empty groups."""
    whole = math.fsum(sums.nats)
    statistics = {(key, name): one for key in sums.groups for name, one in sums.of_groups(key).items()}
    finite = {place: one for place, one in statistics.items() if np.isfinite(one.parts).all()}
    intervals = dict(zip(finite, bootstrap_intervals(list(finite.values())), strict=True))
    found: dict[str, list[GroupScore]] = {key: [] for key in sums.groups}
    for (key, name), statistic in statistics.items():
        nats, count = statistic.parts.sum(axis=0)
        impossible = int(sums.impossible[key][sums.names[key].index(name)])
        low, high = intervals.get((key, name)) or (None, None)
        found[key].append(
            GroupScore(
                group=name,
                tokens=int(count),
                nats=None if impossible else float(nats),
                share_of_nats=float(nats) / whole if 0 < whole < math.inf else None,
                nll=None if impossible else float(nats / count),
                low=low,
                high=high,
                impossible=impossible,
            )
        )
    return found


# -- Paired differences between every two models on the same texts, with intervals and tests.

Place = tuple[str, str] | None
"""Key of a breakdown and a group in it; None: all tokens."""


def same_tokens(sums: Mapping[str, BlockSums]) -> bool:
    """Whether the models in ``sums`` scored the same tokens, so that their values per token can be compared."""
    return len({one.digests[TOKENS] for one in sums.values()}) == 1


def differences(sums: Mapping[str, BlockSums]) -> list[ScoreDifference]:
    """Returns the differences between every two models, the later minus the earlier one, with tests.

    ``sums`` maps the name of each model to the sums of its scores. The list begins with the differences over all
    tokens; those in single groups follow. Models with the same tokens are compared in nats per token, also in each
    group if both models assign the tokens to the same groups. Models with different tokens are compared in bits per
    byte. Infinite values (probability 0) are not compared.
    """
    pairs = [(later, earlier) for earlier, later in combinations(sums, 2)]
    found = [one for first, second in pairs for one in _of_pair(first, second, sums[first], sums[second])]
    by_group = [one for one in found if one.group is not None]
    return [*_corrected([one for one in found if one.group is None]), *_corrected(by_group)]


def _of_pair(first: str, second: str, a: BlockSums, b: BlockSums) -> Iterator[ScoreDifference]:
    alike = a.digests[TOKENS] == b.digests[TOKENS]
    measure: Literal["nll", "bits_per_byte"] = "nll" if alike else "bits_per_byte"
    statistics: dict[Place, tuple[Statistic, Statistic]] = {None: (getattr(a, measure)(), getattr(b, measure)())}
    for key in a.groups if alike else ():
        if key in b.groups and a.digests[key] == b.digests[key]:
            of_b = b.of_groups(key)
            statistics |= {(key, name): (one, of_b[name]) for name, one in a.of_groups(key).items()}
    statistics = {
        place: pair for place, pair in statistics.items() if all(np.isfinite(one.parts).all() for one in pair)
    }
    tests = paired_tests([one for one, _ in statistics.values()], [other for _, other in statistics.values()])
    for (place, (one, other)), test in zip(statistics.items(), tests, strict=True):
        breakdown, group = place or (None, None)
        low, high = (test.interval if test is not None else None) or (None, None)
        yield ScoreDifference(
            first=first,
            second=second,
            measure=measure,
            breakdown=breakdown,
            group=group,
            difference=one.value - other.value,
            low=low,
            high=high,
            p_permutation=None if test is None else test.p_permutation,
            p_holm=None,
        )


def _corrected(found: list[ScoreDifference]) -> list[ScoreDifference]:
    tested = [one for one in found if one.p_permutation is not None]
    corrected = iter(holm([one.p_permutation for one in tested if one.p_permutation is not None]))
    return [one if one.p_permutation is None else one.model_copy(update={"p_holm": next(corrected)}) for one in found]
