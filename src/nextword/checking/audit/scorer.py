"""The interface of scorers. With it, the audit can test any next-word probabilities."""

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
"""Token ids of several texts, as lists of numbers. Their lengths may differ."""

Array: TypeAlias = Any
"""Any input of ``torch.as_tensor``, such as a tensor, a numpy array, or lists of numbers."""


class Scorer(Protocol):
    """Anything that returns next-token probabilities: a function, or an object with some of the methods below.

    All log-probabilities are natural logarithms. Token ids are 0 to V - 1; V is the argument ``vocabulary`` of
    ``nextword.check``. The audit does not pad texts and adds no start and end tokens. A scorer that needs such tokens
    must add them itself.

    A scorer needs at least one of ``__call__``, ``text_distributions`` and ``text_log_probs``. The audit tests
    each of these three that the scorer has, and compares their answers. All other methods are optional and allow more
    tests. Leave out methods that do not apply.

    Examples:
        >>> import torch, nextword as nw
        >>> def uniform(prefixes):
        ...     return torch.full((len(prefixes), 5), 0.2).log()
        >>> nw.check(uniform, vocabulary=5).passed
        True
    """

    precision: str
    """Optional. "float64" if all sums are computed in float64. By default, answers are tested with the tolerance of
    float32."""

    def __call__(self, prefixes: Texts, /) -> Array:
        """Log-probabilities (B, V) of every token after each of B prefixes of at least one token."""
        ...

    def text_distributions(self, texts: Texts, /) -> Sequence[Array]:
        """For each text of T tokens, log-probabilities (T, V). Row t predicts token t (from 0) from the tokens before.

        Row 0 is the distribution before any token. It is NaN if the scorer has no such distribution.
        """
        ...

    def text_log_probs(self, texts: Texts, /) -> Sequence[Array]:
        """For each text of T tokens, the log-probability (T,) of each token given the tokens before it.

        A compressor or a bits-per-byte benchmark needs only these numbers. The first number may be NaN if the scorer
        does not predict the first token.
        """
        ...

    def text_totals(self, texts: Texts, /) -> Sequence[float]:
        """For each text, the sum of its tokens' log-probabilities, without those that are NaN."""
        ...

    def reset(self) -> None:
        """Forget all texts. The audit calls this before each scoring. Without ``reset``, a scorer must be stateless."""
        ...

    def in_steps(self, texts: Texts, sizes: Sequence[int], order: Sequence[int] | None, /) -> Sequence[Array]:
        """Like ``text_distributions``, but the texts are read in steps with a cache (such as a KV cache).

        Args:
            texts: Texts of equal length.
            sizes: Number of tokens in each step. For more steps, the numbers are repeated.
            order: Indices by which cache and texts are reordered after the first step, as in beam search: row i then
                continues text ``order[i]``. The answers have the new order. None: no reordering.
        """
        ...

    def sample(self, prefix: Sequence[int], count: int, /) -> Sequence[int]:
        """Sample ``count`` next tokens after ``prefix``, each independently."""
        ...

    def bits_and_bytes(self, texts: Sequence[str], /) -> Sequence[tuple[float, int]]:
        """For each text (a string), its cost in bits and its number of bytes, from which bits per byte is computed."""
        ...


# -- Reading distributions from a scorer: after every prefix, of whole texts, or only for observed tokens.

CALL, TEXTS, OBSERVED = "__call__", "text_distributions", "text_log_probs"
WAYS = (CALL, TEXTS, OBSERVED)
"""Names of the methods that return probabilities. If two methods disagree, the earlier one counts as correct."""


_LONGEST_COPY = 2**26
"""Maximum size in bytes of a copy of the scorer. The audit must not need memory for a second large model."""


class WrongAnswerError(ValueError):
    """A scorer's answer has the wrong shape."""


class ScorerReader(Reader):
    """Reads the answers of ``scorer`` from its method named ``way``.

    Each text gets one additional token, so that the scorer also predicts the token after the text. Nothing is padded.
    ``copied`` is a copy of the scorer that ``copy_of`` made before the scorer got any text; None: no copy.
    """

    def __init__(self, scorer: Any, way: str, vocabulary: int, copied: bytes | None = None) -> None:
        super().__init__(scorer, way)
        self._copied = copied
        self.name = way
        self.lag = int(way == OBSERVED)
        self.vocabulary = vocabulary

    def texts(self, batch: Batch) -> list[list[int]]:
        """The texts of ``batch`` without padding, as lists of token ids."""
        return [ids[mask].tolist() for ids, mask in zip(batch.ids.cpu(), batch.mask.cpu(), strict=True)]

    def longer_texts(self, batch: Batch) -> list[list[int]]:
        """The texts of ``batch``, each followed by its own first token as the additional token."""
        return [[*text, text[0]] for text in self.texts(batch)]

    def told(self, batch: Batch) -> Float[Tensor, "N K"]:
        """Log-probabilities after every token of ``batch``, computed by the scorer at each call."""
        return torch.cat([answer[1:] for answer in self.asked(self.longer_texts(batch))])

    def asked(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """For each text of T tokens, log-probabilities (T, V); from ``text_log_probs``, (T, 1). Row t predicts token t.

        Raises:
            WrongAnswerError: If the scorer's answer has the wrong shape.
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
        """A reader of ``copied``, the copy of the scorer that was made before the scorer got any text."""
        assert self._copied is not None
        return ScorerReader(pickle.loads(self._copied), self.mode, self.vocabulary)

    def side_by_side(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """Like ``asked``, but a scorer that is called with prefixes gets the prefixes of all lengths in one call."""
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
        """A reader of the scorer's first method in ``WAYS``, which counts as correct. It may be this reader."""
        way = ways_of(self.model)[0]
        return self if way == self.mode else ScorerReader(self.model, way, self.vocabulary)

    @property
    def precision(self) -> torch.dtype:
        """Precision of the scorer's sums: float64 if its attribute ``precision`` is "float64", otherwise float32."""
        return torch.float64 if getattr(self.model, "precision", "") == "float64" else torch.float32

    def in_steps(
        self, batch: Batch, sizes: tuple[int, ...], order: Int[Tensor, "B"] | None = None
    ) -> Float[Tensor, "N V"]:
        """Log-probabilities after every token of ``batch``, from ``Scorer.in_steps`` with ``sizes`` and ``order``."""
        self._reset()
        texts = self.longer_texts(batch)
        found = self.model.in_steps(texts, list(sizes), None if order is None else order.tolist())
        answers = [tensor(answer) for answer in found]
        self._expect([(len(text), self.vocabulary) for text in texts], [tuple(answer.shape) for answer in answers])
        return torch.cat([answer[1:] for answer in answers])

    def _all_log_probs(self, batch: Batch) -> Float[Tensor, "N K"]:
        return self.told(batch)

    def _after_prefixes(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        # prefixes of the same length are in one call, like a batch of texts during generation
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
    """Names of the methods in ``WAYS`` that ``scorer`` has."""
    return tuple(way for way in WAYS if callable(getattr(scorer, way, None)))


def lacks(method: str) -> Callable[[Any], str]:
    """Returns the ``applies`` function of a ``Property`` that needs a scorer with the method named ``method``."""
    return lambda scorer: "" if callable(getattr(scorer, method, None)) else f"the scorer has no {method}"


def copy_of(scorer: Any) -> bytes | None:
    """A pickled copy of ``scorer``. None if it cannot be pickled or the copy would be larger than 64 MiB."""
    copied = _Short()
    try:
        pickle.dump(scorer, copied)
    except Exception:  # any error, for instance with local functions, open files or connections, or a large copy
        return None
    return copied.getvalue()


class _Short(io.BytesIO):
    def write(self, part: Any) -> int:
        if self.tell() + len(part) > _LONGEST_COPY:
            raise ValueError("copy: must be short")
        return super().write(part)


def tensor(answer: Any) -> Tensor:
    """Convert the numbers in a scorer's ``answer`` to a CPU tensor without gradients."""
    return torch.as_tensor(answer).detach().cpu()


# -- A model of lm-eval as a scorer. The audit tests the model that ``lm_eval --model_args`` would score.


class LmEvalScorer:
    """Scores token ids with ``_loglikelihood_tokens`` of an lm-eval model, so that no tokenizer is involved.

    The model must have this method. Nearly all have it, because they are subclasses of ``TemplateLM``.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def text_log_probs(self, texts: Texts, /) -> list[Tensor]:
        """Make one request per token, with the tokens before it as context. The first token gets NaN."""
        requests = [(list(text[:position]), [text[position]]) for text in texts for position in range(1, len(text))]
        told = iter(self._scored(requests))
        return [torch.tensor([torch.nan, *(next(told) for _ in text[1:])]) for text in texts]

    def text_totals(self, texts: Texts, /) -> list[float]:
        """Make one request per text: its first token is the context, and all other tokens are the continuation."""
        whole = [(list(text[:1]), list(text[1:])) for text in texts if len(text) > 1]
        told = iter(self._scored(whole))
        return [next(told) if len(text) > 1 else 0.0 for text in texts]

    def _scored(self, requests: list[tuple[list[int], list[int]]]) -> list[float]:
        if not requests:
            return []
        requested = [(("", ""), context, continuation) for context, continuation in requests]
        return [float(found) for found, _ in self._model._loglikelihood_tokens(requested, disable_tqdm=True)]


def open_lm_eval(arguments: str) -> tuple[LmEvalScorer, int]:
    """Open an lm-eval model as a scorer. Returns the scorer and its vocabulary size.

    ``arguments`` are those of lm-eval's option ``--model_args``, such as ``pretrained=NAME,dtype=float32``. For a model
    type other than ``hf``, the type and a colon come first: ``vllm:pretrained=NAME``.

    Raises:
        ValueError: If lm-eval is not installed or cannot open the model.
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
