"""What a scorer is asked: the contract between the audit and anybody's next-word probabilities."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.checking.probe_texts import Batch
from nextword.checking.readers import Reader
from nextword.runtime import optional_libraries as extras
from nextword.runtime.devices import best_device
from nextword.settings.setting_names import named

Texts: TypeAlias = Sequence[Sequence[int]]
"""Token ids of several texts, which may differ in length; lists of numbers."""

Array: TypeAlias = Any
"""What ``torch.as_tensor`` takes: a tensor, an array of numpy, lists of numbers."""


class Scorer(Protocol):
    """Anything that says how probable the next token is: a function, or an object with some of these methods.

    All numbers are natural logarithms. Token ids count from 0 to ``vocabulary`` - 1. A text has no start or end marks
    but those in its ids, and the audit pads nothing: what a scorer needs, it adds by itself and keeps to itself.

    A scorer has ``__call__``, ``text_distributions`` or ``text_log_probs``. Each of these is audited by itself, and
    where there are several they are held against each other. Every other method is optional and lets more be tested.
    Leave out what you do not have; nothing is called that is not there.

    Examples:
        >>> import torch, nextword as nw
        >>> def uniform(prefixes):
        ...     return torch.full((len(prefixes), 5), 0.2).log()
        >>> nw.check(uniform, vocabulary=5).passed
        True
    """

    precision: str
    """Optional: "float64" where all sums were made in it. Without, no answer is held to more than float32 can hold."""

    def __call__(self, prefixes: Texts, /) -> Array:
        """Log-probabilities (B, V) of every token after each of B prefixes, which have one token or more."""
        ...

    def text_distributions(self, texts: Texts, /) -> Sequence[Array]:
        """For each text of T tokens (T, V): row t says what token t is scored with, so it may depend on those before t.

        Row 0 is what is said before anything was read; NaN where a scorer says nothing then.
        """
        ...

    def text_log_probs(self, texts: Texts, /) -> Sequence[Array]:
        """For each text of T tokens (T,): the log-probability of each given those before it, as it will be counted.

        This is what a compressor or a submission in bits per byte has. The first may be NaN, as above.
        """
        ...

    def text_totals(self, texts: Texts, /) -> Sequence[float]:
        """For each text the log-probability that is counted: the sum over its tokens, those left out that have NaN."""
        ...

    def reset(self) -> None:
        """Forgets every text. Called before each question where it is there; without it nothing may need it."""
        ...

    def in_steps(self, texts: Texts, sizes: Sequence[int], order: Sequence[int] | None, /) -> Sequence[Array]:
        """As ``text_distributions``, read in steps with what the scorer keeps between them (a KV cache).

        Args:
            texts: Texts of one length.
            sizes: Tokens in each step, over and over.
            order: Where given, what is kept and the texts are put into this order after the first step, as beam search
                does: row i continues as text ``order[i]``.
        """
        ...

    def sample(self, prefix: Sequence[int], count: int, /) -> Sequence[int]:
        """So many tokens, each drawn by itself to come next after the prefix."""
        ...

    def bits_and_bytes(self, texts: Sequence[str], /) -> Sequence[tuple[float, int]]:
        """For each text in characters the bits and the bytes of which "bits per byte" is made."""
        ...


# -- Reading distributions off a scorer: after every prefix, of whole texts, or of observed tokens alone.

CALL, TEXTS, OBSERVED = "__call__", "text_distributions", "text_log_probs"
WAYS = (CALL, TEXTS, OBSERVED)
"""Methods by which a scorer can be asked, those first that are held to be right where two contradict each other."""


_LONGEST_COPY = 2**26
"""Bytes; a copy of a large model takes memory that the audit promises not to."""


class WrongAnswerError(ValueError):
    """A scorer's answer does not fit the question: too few rows, or not so many numbers."""


class ScorerReader(Reader):
    """Asks a scorer in one of its ways.

    A text is passed with one more token behind it, so that the prediction after it is asked for too. Nothing is padded.
    ``copied`` is the scorer as ``copy_of`` found it, before anything was asked.
    """

    def __init__(self, scorer: Any, way: str, vocabulary: int, copied: bytes | None = None) -> None:
        super().__init__(scorer, way)
        self._copied = copied
        self.name = way
        self.lag = int(way == OBSERVED)
        self.vocabulary = vocabulary

    def texts(self, batch: Batch) -> list[list[int]]:
        """The texts of a batch, as a scorer is given them."""
        return [ids[mask].tolist() for ids, mask in zip(batch.ids.cpu(), batch.mask.cpu(), strict=True)]

    def longer_texts(self, batch: Batch) -> list[list[int]]:
        """The texts with one more token each."""
        return [[*text, text[0]] for text in self.texts(batch)]

    def told(self, batch: Batch) -> Float[Tensor, "N K"]:
        """Log-probabilities after every token of a batch, asked for anew."""
        return torch.cat([answer[1:] for answer in self.asked(self.longer_texts(batch))])

    def asked(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """For each text of T tokens (T, V), or (T, 1) where only observed tokens are scored: row t is about token t.

        Raises:
            WrongAnswerError: The answer has another shape.
        """
        self._reset()
        if self.mode == CALL:
            return self._after_prefixes(texts)
        found = [tensor(answer) for answer in getattr(self.model, self.mode)([list(text) for text in texts])]
        wide = (self.vocabulary,) if self.mode == TEXTS else ()
        wanted = [(len(text), *wide) for text in texts]
        self._expect(wanted, [tuple(answer.shape) for answer in found])
        return [answer.reshape(len(answer), -1) for answer in found]

    def untouched(self) -> ScorerReader:
        """The same scorer as it was before anything was asked."""
        assert self._copied is not None
        return ScorerReader(pickle.loads(self._copied), self.mode, self.vocabulary)

    def side_by_side(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """As ``asked``, but with texts and prefixes of all lengths in one call."""
        if self.mode != CALL:
            return self.asked(texts)
        self._reset()
        prefixes = [list(text[:length]) for text in texts for length in range(1, len(text))]
        answer = tensor(self.model(prefixes))
        self._expect([(len(prefixes), self.vocabulary)], [tuple(answer.shape)])
        nothing = answer.new_full((1, self.vocabulary), torch.nan)
        return [torch.cat([nothing, told]) for told in torch.split(answer, [len(text) - 1 for text in texts])]

    @property
    def base(self) -> ScorerReader:
        """The same scorer asked in the way that is held to be right; itself where it is that way."""
        way = ways_of(self.model)[0]
        return self if way == self.mode else ScorerReader(self.model, way, self.vocabulary)

    @property
    def precision(self) -> torch.dtype:
        """In which its sums were made, as far as one knows."""
        return torch.float64 if getattr(self.model, "precision", "") == "float64" else torch.float32

    def in_steps(
        self, batch: Batch, sizes: tuple[int, ...], order: Int[Tensor, "B"] | None = None
    ) -> Float[Tensor, "N V"]:
        """Answers of any reader; texts are passed with one token more, as everywhere."""
        self._reset()
        texts = self.longer_texts(batch)
        found = self.model.in_steps(texts, list(sizes), None if order is None else order.tolist())
        answers = [tensor(answer) for answer in found]
        self._expect([(len(text), self.vocabulary) for text in texts], [tuple(answer.shape) for answer in answers])
        return torch.cat([answer[1:] for answer in answers])

    def _all_log_probs(self, batch: Batch) -> Float[Tensor, "N K"]:
        return self.told(batch)

    def _after_prefixes(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        # prefixes of one length are asked about together, as a batch of texts that are written is
        found = [torch.full((len(text), self.vocabulary), torch.nan) for text in texts]
        for length in range(1, max(len(text) for text in texts)):
            rows = [row for row, text in enumerate(texts) if len(text) > length]
            answer = tensor(self.model([list(texts[row][:length]) for row in rows]))
            self._expect([(len(rows), self.vocabulary)], [tuple(answer.shape)])
            for row, told in zip(rows, answer, strict=True):
                found[row] = found[row].to(torch.promote_types(found[row].dtype, told.dtype))
                found[row][length] = told
        return found

    def _reset(self) -> None:
        if callable(getattr(self.model, "reset", None)):
            self.model.reset()

    def _expect(self, wanted: Sequence[tuple[int, ...]], given: Sequence[tuple[int, ...]]) -> None:
        if wanted != given:
            raise WrongAnswerError(f"{self.mode}: must return arrays of shape {wanted} ({given} given)")


def ways_of(scorer: Any) -> tuple[str, ...]:
    """In which ways a scorer can be asked."""
    return tuple(way for way in WAYS if callable(getattr(scorer, way, None)))


def lacks(method: str) -> Callable[[Any], str]:
    """For ``Property.applies``: why a scorer without this method is not asked, and nothing where it has it."""
    return lambda scorer: "" if callable(getattr(scorer, method, None)) else f"the scorer has no {method}"


def copy_of(scorer: Any) -> bytes | None:
    """A copy to be read again with ``untouched``; None where none can be made, or none of less than 64 MiB."""
    copied = _Short()
    try:
        pickle.dump(scorer, copied)
    except Exception:  # of anything: local functions, open files, connections, or too large
        return None
    return copied.getvalue()


class _Short(io.BytesIO):
    def write(self, part: Any) -> int:
        if self.tell() + len(part) > _LONGEST_COPY:
            raise ValueError("copy: must be short")
        return super().write(part)


def tensor(answer: Any) -> Tensor:
    """A scorer's numbers as a tensor on the CPU without gradients."""
    return torch.as_tensor(answer).detach().cpu()


# -- A model of lm-eval as a scorer: what ``lm_eval --model_args`` would score is what is audited.


class LmEvalScorer:
    """Asks ``loglikelihood`` of lm-eval, with token ids in place of texts, so that no tokenizer stands between.

    The requests of its model must be tokens (a ``TemplateLM``, as nearly all are).
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def text_log_probs(self, texts: Texts, /) -> list[Tensor]:
        """One request for each token, with those before it as context; the first has none, and NaN."""
        requests = [(list(text[:position]), [text[position]]) for text in texts for position in range(1, len(text))]
        told = iter(self._scored(requests))
        return [torch.tensor([torch.nan, *(next(told) for _ in text[1:])]) for text in texts]

    def text_totals(self, texts: Texts, /) -> list[float]:
        """One request for each text: its first token is the context, the rest the continuation."""
        whole = [(list(text[:1]), list(text[1:])) for text in texts if len(text) > 1]
        told = iter(self._scored(whole))
        return [next(told) if len(text) > 1 else 0.0 for text in texts]

    def _scored(self, requests: list[tuple[list[int], list[int]]]) -> list[float]:
        if not requests:
            return []
        requested = [(("", ""), context, continuation) for context, continuation in requests]
        return [float(found) for found, _ in self._model._loglikelihood_tokens(requested, disable_tqdm=True)]


def open_lm_eval(arguments: str) -> tuple[LmEvalScorer, int]:
    """A scorer, and the size of its vocabulary.

    Arguments are as after ``--model_args``: ``pretrained=NAME,dtype=float32``. A model other than ``hf`` is named
    before a colon: ``vllm:pretrained=NAME``.

    Raises:
        ValueError: lm-eval is not installed, or knows no such model.
    """
    if extras.missing(["lm_eval"]):
        raise ValueError(f"{named('lm_eval')}: lm-eval is not installed here ({extras.install('tools')})")
    from lm_eval.api.registry import get_model

    name, colon, rest = arguments.partition(":")
    kind, given = (name, rest) if colon and "=" not in name else ("hf", arguments)
    names = {setting.partition("=")[0] for setting in given.split(",")}
    ours = {"batch_size": 8, "device": str(best_device())}
    try:
        left = {name: value for name, value in ours.items() if name not in names}
        model: Any = get_model(kind).create_from_arg_string(given, left)
    except (OSError, ValueError, TypeError, KeyError) as fault:
        said = " ".join(str(fault).split())
        raise ValueError(f"{named('lm_eval')}: '{arguments}' cannot be opened ({said})") from fault
    return LmEvalScorer(model), int(model.model.config.get_text_config(decoder=True).vocab_size)
