"""Completions of prompts, with log-probabilities and optionally the attribution of each token.

Answers have OpenAI's formats. Log-probabilities are those of the model's distribution, before temperature, top-k and
top-p. If a request has ``sources``, each choice of the answer has the additional key ``nextword``: for each token, the
share of each component of the distribution (such as a cache) in the token's probability, and the positions that
contribute most.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

from fastapi.responses import JSONResponse, StreamingResponse

from nextword.inference.generation.generation_passes import end_ids, stop_strings
from nextword.inference.generation.generator import NoNumbersError, SourceColumns
from nextword.inference.generation.row_sampling import text_keys
from nextword.inference.scoring.token_facts import TokenFacts
from nextword.runtime.pretrained import token_bytes, token_label
from nextword.serving.http.admission import Meters
from nextword.serving.http.answer_forms import NamedToken, ShownToken, json_number
from nextword.serving.http.batches import SharedBatches
from nextword.serving.http.pages import POSITIONS, AnswerFacts
from nextword.serving.http.requests import AnswerRequest
from nextword.serving.http.single_texts import SingleTexts

_MOST = 2048
"""Maximum number of answers per request."""


class Sent(NamedTuple):
    """The numbers of tokens and characters of an answer that have been sent to the client."""

    tokens: int = 0
    characters: int = 0


NOTHING = Sent()


class Completions:
    """Answers requests for the model ``name``, whose answers are generated in ``batches``.

    ``singles`` generates answers to requests with draft tokens, and to sampled requests with a seed. Without
    ``singles``, such requests are rejected. When an answer is finished, ``remember`` is called with the tokens of
    prompt and answer.
    """

    def __init__(
        self,
        name: str,
        batches: SharedBatches,
        facts: AnswerFacts,
        meters: Meters,
        singles: SingleTexts | None = None,
        remember: Callable[[list[int]], Awaitable[None]] | None = None,
    ) -> None:
        self.name, self._batches, self._facts, self._meters, self._singles = name, batches, facts, meters, singles
        self._remember = remember
        self._config = facts.opened.model.generation_config
        self._tokenizer: Any = facts.opened.tokenizer
        self._names = TokenNames(self._tokenizer)

    async def answer(self, request: AnswerRequest) -> JSONResponse | StreamingResponse:
        """The response to ``request``. LookupError if it is for another model, ValueError if it is invalid."""
        self.expect_served(request.model)
        rows = request.rows(self._tokenizer)
        if len(rows) * request.n > _MOST:
            raise ValueError(f"prompt: must ask for at most {_MOST:,} answers ({len(rows) * request.n:,} asked for)")
        stops = [*request.stop, *stop_strings(self._config)]
        prompts = [row for row in rows for _ in range(request.n)]
        answers = [
            WrittenAnswer(self._tokenizer, prompt, stops, index, echoes=request.echoes)
            for index, prompt in enumerate(prompts)
        ]
        name = f"{request.form.prefix}-{uuid.uuid4().hex}"
        usage = partial(_usage, rows, answers)
        steps = self._written(answers, request, name)
        if request.stream:
            first = await anext(steps)  # an invalid request raises its error before the answer begins
            events = self._events(first, steps, request, name, usage)
            return StreamingResponse(events, media_type="text/event-stream")
        async with aclosing(steps):
            async for _ in steps:
                pass
        choices = [(await self._choice(answer, request))[0] for answer in answers]
        return JSONResponse(request.form.shell(name, self.name, choices, stream=False) | {"usage": usage()})

    def expect_served(self, model: str | None) -> None:
        """Raises LookupError if ``model`` is neither None nor the name of the served model."""
        if model not in (None, self.name):
            raise LookupError(f"model: must be '{self.name}', which is served here ('{model}' given)")

    def close(self) -> None:
        """Cancels requests outside the shared batches."""
        if self._singles is not None:
            self._singles.close()

    async def _written(
        self, answers: Sequence[WrittenAnswer], request: AnswerRequest, name: str
    ) -> AsyncGenerator[WrittenAnswer]:
        """Yields an answer whenever it has grown. Cancels requests of disconnected clients."""
        rooms = [self._batches.room_behind(answer.prompt, least=min(1, request.most)) for answer in answers]
        outputs: asyncio.Queue[tuple[WrittenAnswer, Any]] = asyncio.Queue()
        ends = end_ids(self._config)
        unfinished: dict[int, Callable[[], None]] = {}
        try:
            for answer, room, key in zip(answers, rooms, self._keys(answers, request), strict=True):
                if request.most:
                    unfinished[answer.index] = self._begin(answer, room, key, request, name, outputs)
                else:
                    answer.end(ends)
                    yield answer
            while unfinished:
                answer, output = await outputs.get()
                if answer.index not in unfinished:
                    continue
                if output.error is not None:
                    raise _as_ours(output.error)
                answer.read(output.generated_tokens, ends, is_all=output.is_finished())
                if output.is_finished() and request.draft:
                    answer.drafted = output.accepted, output.refused
                if answer.finished:
                    unfinished.pop(answer.index)()
                yield answer
        finally:
            for answer in answers:
                self._meters.tokens.labels("prompt").inc(len(answer.prompt))
                self._meters.tokens.labels("answer").inc(answer.written)
            for give_up in unfinished.values():
                give_up()

    def _keys(self, answers: Sequence[WrittenAnswer], request: AnswerRequest) -> list[int | None]:
        """The random key of each answer. None: the answer uses the shared random stream."""
        if request.seed is None or not request.decoding(self._config).is_sampled:
            return [None] * len(answers)
        prompts = answers[:: request.n]
        return [*text_keys(request.seed, [(answer.prompt, None) for answer in prompts], request.n)]

    def _begin(
        self, answer: WrittenAnswer, room: int, key: int | None, request: AnswerRequest, name: str,
        outputs: asyncio.Queue[tuple[WrittenAnswer, Any]],
    ) -> Callable[[], None]:  # fmt: skip
        """Starts an answer, in the shared batches or separately. Returns a function that cancels it."""
        how, most = request.decoding(self._config), min(request.most, room)

        def tell(output: Any) -> None:
            outputs.put_nowait((answer, output))

        if request.draft is None and key is None:
            return self._batches.begin(answer.prompt, how, most, f"{name}-{answer.index}", tell)
        if self._singles is None:
            field = "seed" if request.draft is None else "draft"
            raise ValueError(f"{field}: must be left out where the server remembers texts (--remember)")
        return self._singles.begin(answer.prompt, how, most, request.draft, key, tell)

    async def _events(
        self,
        first: WrittenAnswer,
        steps: AsyncGenerator[WrittenAnswer],
        request: AnswerRequest,
        name: str,
        usage: Callable[[], dict[str, Any]],
    ) -> AsyncIterator[str]:
        form, counts = request.form, request.stream_options.include_usage
        without = {"usage": None} if counts else {}
        sent: dict[int, Sent] = {}
        async with aclosing(steps):
            try:
                answer: WrittenAnswer | None = first
                while answer is not None:
                    before = sent.get(answer.index, NOTHING)
                    if answer.certain > before.tokens or answer.finished:
                        choice, sent[answer.index] = await self._choice(answer, request, before)
                        yield _event(form.shell(name, self.name, [choice], stream=True) | without)
                    answer = await anext(steps, None)
            except RuntimeError as problem:
                yield _event({"error": {"message": str(problem), "type": "server_error"}})
                return
        if counts:
            yield _event(form.shell(name, self.name, [], stream=True) | {"usage": usage()})
        yield "data: [DONE]\n\n"

    async def _choice(
        self, answer: WrittenAnswer, request: AnswerRequest, sent: Sent = NOTHING
    ) -> tuple[dict[str, Any], Sent]:
        """The final but unsent part of an answer, as a choice, and what has been sent after this part."""
        form, finished = request.form, answer.finished
        begin, end = sent.tokens, answer.certain
        new, pieces = answer.ids[begin:end], answer.pieces[begin:end]
        # the last characters may be incomplete, and then belong to no piece
        text = answer.text[sent.characters :] if finished else "".join(pieces)
        choice = form.choice(answer.index, text, finished, stream=request.stream, first=sent == NOTHING)
        if new and (request.alternatives is not None or request.sources):
            before = [*answer.before, *answer.ids[:begin]]
            positions = POSITIONS if request.sources else 0
            facts = await self._facts.of(before, new, candidates=max(request.alternatives or 0, 1), positions=positions)
            if request.alternatives is not None:
                shown = shown_tokens(self._names, new, pieces, facts, sent.characters)
                choice["logprobs"] = form.log_probs(shown, request.alternatives)
            if request.sources:
                choice["nextword"] = {"tokens": sources_of(new, pieces, facts, len(before))}
        if finished and self._remember is not None:  # only at the end, so that an answer cannot retrieve from itself
            await self._remember([*answer.before, *answer.ids])
        return choice, Sent(end, sent.characters + len(text))


def _usage(rows: Sequence[Sequence[int]], answers: Sequence[WrittenAnswer]) -> dict[str, Any]:
    read, written = sum(map(len, rows)), sum(answer.written for answer in answers)
    usage: dict[str, Any] = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    drafted = [answer.drafted for answer in answers if answer.drafted is not None]
    if drafted:
        names = ("accepted_prediction_tokens", "rejected_prediction_tokens")
        usage["completion_tokens_details"] = dict(zip(names, map(sum, zip(*drafted, strict=True)), strict=True))
    return usage


def _as_ours(error: Any) -> Exception:
    # a ValueError means an invalid request; any other error, and scores that are NaN, mean a problem of the model
    return error if isinstance(error, ValueError) and not isinstance(error, NoNumbersError) else RuntimeError(error)


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False, separators=(',', ':'), allow_nan=False)}\n\n"


# -- An answer during generation: its tokens, the text that each token adds, and its end at a stop string.

_BEFORE = 8
"""Number of prompt tokens needed to decode the beginning of the answer (spaces, split characters)."""


class WrittenAnswer:
    """The tokens and text of an answer so far. If ``echoes`` is true, the answer begins with the prompt.

    ``stops`` are strings that end the answer and are removed from it. ``index`` is the answer's index in the request.

    Attributes:
        before: Tokens that the client does not get: the prompt, or none if ``echoes`` is true.
        ids: Tokens that the client gets, including those whose text was removed with a stop string.
        pieces: Text that each of ``ids`` adds. Empty while a character is incomplete.
        finished: Reason why the answer ended. None while the answer grows.
        drafted: Numbers of accepted and rejected draft tokens. None without drafts, or before the answer's end.
    """

    def __init__(
        self, tokenizer: Any, prompt: Sequence[int], stops: Sequence[str] = (), index: int = 0, *, echoes: bool = False
    ) -> None:
        from tokenizers.decoders import DecodeStream

        self.index, self.prompt, self._tokenizer, self._stops = index, list(prompt), tokenizer, stops
        self._decoder = DecodeStream([], skip_special_tokens=True)
        read = [self._piece(token) for token in (prompt if echoes else prompt[-_BEFORE:])]
        self.before: list[int] = [] if echoes else self.prompt
        self.ids, self.pieces = (list(prompt), read) if echoes else ([], [])
        self._echoed, self._text = len(self.ids), ""
        self.finished: str | None = None
        self.drafted: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """The text of ``ids``: all ``pieces``, concatenated."""
        return "".join(self.pieces)

    @property
    def written(self) -> int:
        """Number of generated tokens, without the prompt."""
        return len(self.ids) - self._echoed

    def read(self, tokens: Sequence[int], ends: Sequence[int], *, is_all: bool) -> None:
        """Adds the new ones of ``tokens``, which are all tokens generated so far. If ``is_all``, ends the answer."""
        for token in tokens[self.written :]:
            self.add(token)
            if self.finished:
                return
        if is_all:
            self.end(ends)

    def add(self, token: int) -> None:
        """Adds one token. A stop string ends the answer."""
        piece = self._piece(token)
        self.ids.append(token)
        self.pieces.append(piece)
        self._text += piece
        found = [at for stop in self._stops if (at := self._text.find(stop)) >= 0]
        if found:
            self.finished = "stop"
            self._cut(min(found))

    def end(self, ends: Sequence[int]) -> None:
        """Ends the answer, with the reason "stop" if its last token is in ``ends``, otherwise "length"."""
        self.finished = "stop" if self.written and self.ids[-1] in ends else "length"
        if self.written:
            self.pieces[-1] += self._unfinished_character()

    @property
    def certain(self) -> int:
        """Number of ``ids`` whose text is final. The text after them may be the beginning of a stop string."""
        if self.finished:
            return len(self.ids)
        held = max((_overlap(self._text, stop) for stop in self._stops), default=0)
        count = len(self.ids)
        while held > 0:
            count -= 1
            held -= len(self.pieces[count])
        return count

    def _piece(self, token: int) -> str:
        return self._decoder.step(self._tokenizer._tokenizer, token) or ""

    def _cut(self, end: int) -> None:
        """Cuts the answer's text at a character. Later tokens stay, with empty text."""
        left = end
        for place in range(self._echoed, len(self.pieces)):
            self.pieces[place] = self.pieces[place][:left]
            left -= len(self.pieces[place])

    def _unfinished_character(self) -> str:
        read = self.prompt[-_BEFORE:]
        before, whole = (
            str(self._tokenizer.decode(ids, skip_special_tokens=True))
            for ids in (read, [*read, *self.ids[self._echoed :]])
        )
        return whole[len(before) + len(self._text) :]


def _overlap(text: str, stop: str) -> int:
    r"""Number of characters at the end of a text that are the beginning of a stop string.

    >>> _overlap("It ends.", ".\n"), _overlap("aab", "abc"), _overlap("It ends", ".\n")
    (1, 2, 0)
    """
    longest = min(len(text), len(stop) - 1)
    return next((count for count in range(longest, 0, -1) if text.endswith(stop[:count])), 0)


# -- The tokens of an answer in the form for a client: names, log-probabilities, alternatives, sources and positions.


class TokenNames:
    """Makes a ``NamedToken``, which has the token's text and bytes, from the id of a token."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._of = cache(self._name)

    def named(self, token: int, log_prob: float | None) -> NamedToken:
        """The token with the id ``token`` and the log-probability ``log_prob``."""
        return NamedToken(*self._of(token), log_prob)

    def _name(self, token: int) -> tuple[str, bytes | None]:
        content = token_bytes(self._tokenizer, token)
        try:
            text = (content or b"").decode()
        except UnicodeDecodeError:  # the token is a part of a character
            text = ""
        return text or token_label(self._tokenizer, token), content


def shown_tokens(
    names: TokenNames, ids: Sequence[int], pieces: Sequence[str], facts: TokenFacts, offset: int
) -> list[ShownToken]:
    """The tokens ``ids``, whose texts are ``pieces``, with log-probabilities and alternatives from ``facts``.

    ``facts`` are about all of ``ids``, or all except the first token of a text, which is not predicted. ``offset`` is
    the number of characters of the answer before ``pieces``.
    """
    best, shown = facts.candidates, []
    offsets = accumulate(map(len, pieces), initial=offset)
    for token, at, row in zip(ids, offsets, _rows(ids, facts), strict=False):
        if row is None:
            shown.append(ShownToken(names.named(token, None), (), at))
            continue
        alternatives = zip(best.ids[row].tolist(), best.log_prob[row].tolist(), strict=True)
        token_itself = names.named(token, float(facts.log_prob[row]))
        shown.append(ShownToken(token_itself, [names.named(*rival) for rival in alternatives], at))
    return shown


def sources_of(ids: Sequence[int], pieces: Sequence[str], facts: TokenFacts, first: int) -> list[dict[str, Any]]:
    """For each of ``ids``, whose texts are ``pieces``, a JSON object with the token's facts.

    The facts are log-probability, rank and entropy, the shares of the distribution's components, and the positions that
    contribute most, counted from the prompt's start. The position of ``ids[0]`` is ``first``. ``facts`` are as for
    ``shown_tokens``.
    """
    made = []
    for number, (token, piece, row) in enumerate(zip(ids, pieces, _rows(ids, facts), strict=True)):
        told: dict[str, Any] = {"log_prob": None, "rank": None, "entropy": None, "shares": {}, "positions": {}}
        made.append(
            {"id": token, "piece": piece, "position": first + number, **(told if row is None else _told(facts, row))}
        )
    return made


def _told(facts: TokenFacts, row: int) -> dict[str, Any]:
    sources = SourceColumns.of(facts[row : row + 1], 4)
    return {
        "log_prob": json_number(float(facts.log_prob[row])),
        "rank": int(facts.rank[row]),
        "entropy": float(facts.entropy[row]),
        "shares": {name: share for name, (share,) in sources.shares.items()},
        "positions": {name: strongest for name, (strongest,) in sources.positions.items()},
    }


def _rows(ids: Sequence[int], facts: TokenFacts) -> list[int | None]:
    """The row of each token in the facts. None for the first token of a text, which is not predicted."""
    count = len(facts.log_prob)
    return [*[None] * (len(ids) - count), *range(count)]
