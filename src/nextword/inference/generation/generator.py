"""Generates texts for tokenised prompts, one batch at a time, for tasks, the command line and the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerBase,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
)

from nextword.functional.padding import padded
from nextword.inference.generation.generation_passes import GenerationPass, effective_config, end_ids
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.row_sampling import text_keys
from nextword.inference.generation.samples_files import DIGITS
from nextword.inference.scoring.likelihood import (
    Inputs,
    TokenPair,
    distribution_at_targets,
    fill_id,
    no_inputs,
    why_nan,
)
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.token_facts import TokenFacts, token_facts
from nextword.model.forward.output_layer import weights_at_fault
from nextword.model.speculative_decoding.speculative_loop import SpeculativeLoop

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class Generator:
    """Generates texts with one model and one decoding strategy.

    Attributes:
        model: A model with a head, in evaluation mode.
        arguments: Arguments of ``generate``. All other arguments have the values of the model's ``generation_config``.
        inputs: Function that makes further model inputs for a batch, for instance from auxiliary texts.
        stops: Strings that end a text; None: no such strings.
    """

    model: NextWordModel
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inputs: Inputs = no_inputs
    stops: StopStrings | None = None

    def write(self, prompts: Sequence[TokenPair], loop: Any = None) -> list[list[int]]:
        """Generates one text for each of ``prompts``, and returns the token ids of each text without the end token.

        Args:
            prompts: The prompts or sources of one batch. Targets are not read.
            loop: Decoding loop passed to ``generate`` as ``custom_generate``. None: the loop of ``generate``, which
                samples with torch's generator.

        Raises:
            ValueError: If ``generate`` rejects its arguments.
            NoNumbersError: If the model's scores are NaN.
        """
        model, has_encoder = self.model, self.model.config.is_encoder_decoder
        contexts = [prompt.context for prompt in prompts]
        ids, mask = padded(contexts, fill_id(model), side="right" if has_encoder else "left")
        begin = 1 if has_encoder else ids.shape[1]
        arguments, numbers = dict(self.arguments), ExpectNumbers(model)
        config = effective_config(model, arguments)
        if self.stops is not None:
            arguments |= {"stop_strings": None, "stopping_criteria": StoppingCriteriaList([self.stops.behind(begin)])}
        if loop is not None:
            arguments["custom_generate"] = loop
        if not isinstance(loop, SpeculativeLoop):  # this loop checks for NaN itself, and is fastest without processors
            arguments["logits_processor"] = LogitsProcessorList([numbers])
        try:
            output = model.generate(
                ids.to(model.device), attention_mask=mask.to(model.device), **self.inputs(prompts), **arguments
            )
        except TypeError as fault:
            told = [(name, value) for name, value in self.arguments.items() if value is not None and name.islower()]
            given = ", ".join(f"{name}={value}" for name, value in told)
            raise ValueError(f"generate: cannot take {given} ({fault})") from fault
        except (FloatingPointError, RuntimeError) as fault:
            if isinstance(fault, RuntimeError) and weights_at_fault(model) is None:  # torch cannot sample from NaN
                raise
            raise NoNumbersError(model) from None
        numbers.expect()
        ends_with, pad = end_ids(config), config.pad_token_id
        texts = [without_end(row, ends_with, pad) for row in output[:, begin:].tolist()]
        return texts if self.stops is None else [self.stops.cut(text) for text in texts]


class NoNumbersError(ValueError):
    """The scores of a model's tokens are NaN. The message says why."""

    def __init__(self, model: NextWordModel) -> None:
        super().__init__(f"generate: the scores of the next token are nan: {why_nan(model)}")


class ExpectNumbers(LogitsProcessor):
    """Raises ``NoNumbersError`` if scores are NaN: at once for the first token, in ``expect`` for later tokens."""

    def __init__(self, model: NextWordModel) -> None:
        self._model = model
        self._wrong: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Checks ``scores``, and returns them unchanged."""
        wrong = scores.amax(-1).isnan().any()
        if self._wrong is None:
            self._wrong = wrong
            self.expect()
        else:
            self._wrong = self._wrong | wrong  # read later, because reading it now would wait for the accelerator
        return scores

    def expect(self) -> None:
        """Raises ``NoNumbersError`` if a score was NaN in any call so far."""
        if self._wrong is not None and bool(self._wrong):
            raise NoNumbersError(self._model)


class StopStrings:
    """Strings that end a text and are kept in it. A stop string does not count if it begins in the prompt."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, strings: Sequence[str]) -> None:
        self._tokenizer, self._strings = tokenizer, list(strings)

    @cached_property
    def _criterion(self) -> StoppingCriteria:
        # made here, because ``generate`` does not pass its tokenizer to a custom loop
        return StopStringCriteria(self._tokenizer, self._strings)

    def behind(self, begin: int) -> StoppingCriteria:
        """Stopping criterion for ``generate``, for rows in which the generated text begins at column ``begin``."""
        return _Written(self._criterion, begin)

    def cut(self, ids: list[int]) -> list[int]:
        """The ids up to the token that completes a stop string; all ids if there is no stop string."""
        if not self._stops(ids):
            return ids
        low, high = 0, len(ids)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._stops(ids[:middle]) else (middle, high)
        return ids[:high]

    def _stops(self, ids: list[int]) -> bool:
        text = self._tokenizer.decode(ids, skip_special_tokens=False)
        return any(string in text for string in self._strings)


class _Written(StoppingCriteria):
    # gives another criterion only the generated tokens

    def __init__(self, criterion: StoppingCriteria, begin: int) -> None:
        self._criterion, self._begin = criterion, begin

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return self._criterion(input_ids[:, self._begin :], scores, **kwargs)


def without_end(ids: list[int], ends: Sequence[int], pad: int | None) -> list[int]:
    """The ids before the first of ``ends`` or, without one, before the padding at the end; all if ``ends`` is empty.

    >>> without_end([5, 6, 2, 0, 0], [2], 0), without_end([5, 0, 6, 0, 0], [2], 0), without_end([5, 0], [], 0)
    ([5, 6], [5, 0, 6], [5, 0])
    """
    for place, token in enumerate(ids):
        if token in ends:
            return ids[:place]
    count = len(ids)
    while ends and count and ids[count - 1] == pad:
        count -= 1
    return ids[:count]


# -- The texts of one pass over prompts: rows with their own random numbers, in batches of similar length.


@dataclass(frozen=True)
class PromptRow:
    """One text to generate.

    Attributes:
        number: Line number of the text in the samples file, from 0.
        sample: Index of the text among the texts of its prompt, from 0.
        key: Number that determines the random numbers of this text.
    """

    number: int
    prompt: Prompt
    sample: int
    key: int


@dataclass(frozen=True)
class GeneratedText:
    """A generated text.

    Attributes:
        token_ids: Generated tokens, without the end token.
        text: The tokens as text, without special tokens.
        sources: Shares of components and positions in each token's probability; None if they were not requested.
    """

    row: PromptRow
    token_ids: list[int]
    text: str
    sources: SourceColumns | None = None

    @property
    def said(self) -> list[int]:
        """The token ids of the prompt and the text together."""
        return [*self.row.prompt.context, *self.token_ids]


def rows_of(prompts: Sequence[Prompt], one: GenerationPass) -> list[PromptRow]:
    """The rows (texts to generate) of the pass ``one``, in the order of the prompts."""
    keys = text_keys(one.seed, [(prompt.context, prompt.auxiliary) for prompt in prompts], one.samples)
    texts = [(prompt, sample) for prompt in prompts for sample in range(one.samples)]
    return [PromptRow(number, *text, key) for number, (text, key) in enumerate(zip(texts, keys, strict=True))]


def length_batches(rows: Sequence[PromptRow], size: int) -> list[list[PromptRow]]:
    """Makes batches of at most ``size`` rows of similar length, longest first, so that a memory error comes early."""
    ordered = sorted(rows, key=lambda row: (-len(row.prompt.context), row.number))
    return [ordered[begin : begin + size] for begin in range(0, len(ordered), size)]


# -- The attribution of generated tokens, as columns of a samples file.


@dataclass(frozen=True)
class SourceColumns:
    """Shares of components and positions in the probability of each token of one text.

    Attributes:
        shares: For each component of the head, its share of each token's probability. The shares of a token sum to 1.
        positions: For each component that points at positions, pairs (position, share) per token, largest first. A
            position is an index into the tokens of prompt and text together (an encoder-decoder model has no prompt);
            -1 is the start token. If the component reads a source or an auxiliary text, a position is an index into
            that text's tokens.
    """

    shares: dict[str, list[float]]
    positions: dict[str, list[list[tuple[int, float]]]]

    @classmethod
    def of(cls, facts: TokenFacts, digits: int, specials: Mapping[str, int] = MappingProxyType({})) -> SourceColumns:
        """Makes the columns from ``facts``, with ``digits`` decimals. Positions in datastores are left out.

        ``specials`` maps the name of a component to the number of special tokens at the beginning of the text at which
        it points; positions in the result are counted after these tokens.
        """
        shares = {name: [round(one, digits) for one in share.tolist()] for name, share in facts.shares.items()}
        positions = {}
        for name, strongest in facts.positions.items():
            if strongest.documents is not None:  # these positions are in a datastore, not in a text of the sample
                continue
            before = specials.get(name, 0)
            tokens = zip(strongest.at.tolist(), strongest.share.tolist(), strict=True)
            positions[name] = [
                [(at - before, round(share, digits)) for at, share in zip(*token, strict=True) if at >= 0]
                for token in tokens
            ]
        return cls(shares, positions)

    def columns(self) -> dict[str, Any]:
        """A mapping from column names in a samples file (``shares``, and ``positions`` if there are any) to values."""
        return {"shares": self.shares, **({"positions": self.positions} if self.positions else {})}


def source_columns(
    opened: OpenedModel, texts: Sequence[Prompt], inputs: Mapping[str, Any], positions: int
) -> list[SourceColumns]:
    """The columns of ``texts``, whose targets are generated tokens, with at most ``positions`` positions per token."""
    distribution, ids = distribution_at_targets(opened.model, texts, inputs)
    facts = token_facts(distribution, ids, positions=positions)
    texts_read = distribution.positions_in()
    columns = []
    for text, said in zip(texts, facts.split(texts), strict=True):
        before = 1 if opened.has_encoder else text.start  # a decoder of an encoder-decoder model has one start token
        specials = {name: before * (of == "text") for name, of in texts_read.items()}
        columns.append(SourceColumns.of(said, DIGITS, specials))
    return columns
