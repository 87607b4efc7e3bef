"""How a prompt goes on, with log-probabilities and, when asked for, sources and places.

Answers have one of OpenAI's forms. Log-probabilities are those of the model's distribution, before temperature, top-k
and top-p. With ``sources`` a choice has a further key, ``nextword``: for each token the parts of the distribution that
its probability came from, and the places in prompt and answer.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi.responses import JSONResponse, StreamingResponse

from nextword.pretrained import token_label
from nextword.scoring.token_facts import TokenFacts
from nextword.serving.http.answer_facts import PLACES, AnswerFacts
from nextword.serving.http.answer_forms import TEXT, AnswerForm, LabelledToken, json_number
from nextword.serving.http.batches import SharedBatches
from nextword.serving.http.completion_request import CompletionRequest
from nextword.serving.http.drafted_texts import DraftedTexts
from nextword.serving.http.meters import Meters

_BEFORE = 8
"""Tokens of the prompt that decide how the answer begins: with a space, or in the middle of a character."""


@dataclass
class Answer:
    """What has been written so far.

    Attributes:
        ids: Tokens of the answer.
        pieces: What each adds to the text; empty where a character is not whole yet.
        finished: Why it ended; None while it goes on.
        drafted: Drafted words that were accepted and refused; None: none were asked for, or it goes on.
    """

    ids: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    finished: str | None = None
    drafted: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(self.pieces)


class Completions:
    """Answers requests.

    Args:
        name: What the model is called.
        batches: Where tokens are written.
        facts: What is asked about them.
        meters: What is counted.
        drafts: Where requests that ask for drafts are written; None: they are refused.
        remember: Called with the tokens of every finished prompt and answer; None: nothing is remembered.
    """

    def __init__(
        self,
        name: str,
        batches: SharedBatches,
        facts: AnswerFacts,
        meters: Meters,
        drafts: DraftedTexts | None = None,
        remember: Callable[[list[int]], Awaitable[None]] | None = None,
    ) -> None:
        self.name, self._batches, self._facts, self._meters, self._drafts = name, batches, facts, meters, drafts
        self._remember = remember
        self._model = facts.opened.model
        self._tokenizer: Any = facts.opened.tokenizer

    async def answer(self, request: CompletionRequest, form: AnswerForm = TEXT) -> JSONResponse | StreamingResponse:
        """The response to a request.

        Args:
            request: The request.
            form: How the answer is written.

        Raises:
            ValueError: The request cannot be answered; says why.
        """
        if request.model not in (None, self.name):
            raise LookupError(f"model: must be '{self.name}', which is served here ('{request.model}' given)")
        ids = self._ids(request.prompt)
        name = f"{form.prefix}-{uuid.uuid4().hex}"
        if request.stream:
            steps = self._written(ids, request, name)
            first = await anext(steps)  # what is wrong with a request is said before the answer begins
            return StreamingResponse(
                self._events(first, steps, ids, request, name, form), media_type="text/event-stream"
            )
        answer = Answer()
        async with aclosing(self._written(ids, request, name)) as steps:
            async for step in steps:
                answer = step
        choice = await self._choice(ids, answer, request, form)
        return JSONResponse(form.shell(name, self.name, [choice], stream=False) | {"usage": _usage(ids, answer)})

    def _ids(self, prompt: str | list[int]) -> list[int]:
        if isinstance(prompt, list):
            return prompt
        found: list[int] = self._tokenizer(prompt)["input_ids"]
        if not found:
            raise ValueError("prompt: must have a token (none in this text); write a word")
        return found

    async def _written(self, ids: list[int], request: CompletionRequest, name: str) -> AsyncGenerator[Answer]:
        """The answer, again whenever it has grown; a request that nobody waits for any more is given up."""
        from tokenizers.decoders import DecodeStream

        how = request.generation(self._model.generation_config)
        outputs: asyncio.Queue[Any] = asyncio.Queue()
        give_up = self._begin(ids, request, how, name, outputs)
        answer, decoder = Answer(), DecodeStream([], skip_special_tokens=True)
        rust = self._tokenizer._tokenizer
        for one in ids[-_BEFORE:]:
            decoder.step(rust, one)
        try:
            while answer.finished is None:
                output = await outputs.get()
                if output.error is not None:
                    raise output.error if isinstance(output.error, ValueError) else RuntimeError(output.error)
                for token in output.generated_tokens[len(answer.ids) :]:
                    answer.ids.append(token)
                    answer.pieces.append(decoder.step(rust, token) or "")
                    if any(stop in answer.text for stop in request.stops):
                        answer.finished = "stop"
                        _cut(answer, request.stops)
                        break
                else:
                    if output.is_finished():
                        self._end_text(ids, answer)
                        answer.finished = "stop" if answer.ids and answer.ids[-1] in _ends(how) else "length"
                        answer.drafted = (output.accepted, output.refused) if request.draft else None
                yield answer
        finally:
            self._meters.tokens.labels("prompt").inc(len(ids))
            self._meters.tokens.labels("answer").inc(len(answer.ids))
            give_up(name)

    def close(self) -> None:
        """Gives up what is written with drafts; the batches end by themselves."""
        if self._drafts is not None:
            self._drafts.close()

    def _begin(
        self, ids: list[int], request: CompletionRequest, how: Any, name: str, outputs: asyncio.Queue[Any]
    ) -> Callable[[str], None]:
        """Has a request written, in the shared batches or with drafts; what gives it up."""
        if request.draft is None:
            self._batches.manager.register_result_handler(name, outputs.put_nowait)
            self._batches.add(ids, how, name, streaming=True, eos_token_id=how.eos_token_id)
            given_up: Callable[[str], None] = self._batches.manager.cancel_request
            return given_up
        if self._drafts is None:
            raise ValueError("draft: must be left out where the server remembers texts (--remember)")
        self._drafts.begin(ids, how, request.draft, name, outputs.put_nowait)
        return self._drafts.cancel

    def _end_text(self, ids: list[int], answer: Answer) -> None:
        """Adds what is left of a character that was begun, as the tokenizer shows it."""
        before = ids[-_BEFORE:]
        whole, read = (
            self._tokenizer.decode(one, skip_special_tokens=True) for one in ([*before, *answer.ids], before)
        )
        if answer.pieces:
            answer.pieces[-1] += str(whole)[len(read) + len(answer.text) :]

    async def _events(
        self,
        first: Answer,
        steps: AsyncGenerator[Answer],
        ids: list[int],
        request: CompletionRequest,
        name: str,
        form: AnswerForm,
    ) -> AsyncIterator[str]:
        """The answer as server-sent events, each with the tokens that are new."""
        sent, answer = 0, first
        async with aclosing(steps):
            try:
                while True:
                    new = len(answer.ids)
                    if new > sent or answer.finished:
                        choice = await self._choice(ids, answer, request, form, sent)
                        yield _event(form.shell(name, self.name, [choice], stream=True))
                        sent = new
                    if answer.finished:
                        break
                    answer = await anext(steps)
            except RuntimeError as problem:
                yield _event({"error": {"message": str(problem), "type": "server_error"}})
                return
        yield _event(form.shell(name, self.name, [], stream=True) | {"usage": _usage(ids, answer)})
        yield "data: [DONE]\n\n"

    async def _choice(
        self, ids: list[int], answer: Answer, request: CompletionRequest, form: AnswerForm, begin: int = 0
    ) -> dict[str, Any]:
        """The answer from a token on, as a choice."""
        finished = answer.finished
        new, pieces = answer.ids[begin:], answer.pieces[begin : len(answer.ids)]
        choice = form.choice("".join(pieces), finished, stream=request.stream, first=begin == 0)
        if request.asks_facts and new:
            places = PLACES if request.sources else 0
            before = [*ids, *answer.ids[:begin]]
            facts = await self._facts.of(before, new, candidates=max(request.logprobs or 0, 1), places=places)
            offset = len("".join(answer.pieces[:begin]))
            if request.logprobs is not None:
                choice["logprobs"] = form.log_probs(self._labelled(new, pieces, facts, offset), request.logprobs)
            if request.sources:
                choice["nextword"] = {"tokens": self._sources(new, pieces, facts, len(before))}
        if finished and self._remember is not None:  # not before: the answer did not have itself to retrieve from
            await self._remember([*ids, *answer.ids])
        return choice

    def _labelled(self, ids: list[int], pieces: list[str], facts: TokenFacts, offset: int) -> list[LabelledToken]:
        """Tokens with their rivals; the first one's text begins at ``offset``."""
        best = zip(facts.candidates.ids.tolist(), facts.candidates.log_prob.tolist(), strict=True)
        return [
            LabelledToken(
                self._label(ids[place]),
                log_prob,
                [(self._label(rival), value) for rival, value in zip(rivals, values, strict=True)],
                offset + len("".join(pieces[:place])),
            )
            for place, (log_prob, (rivals, values)) in enumerate(zip(facts.log_prob.tolist(), best, strict=True))
        ]

    def _sources(self, ids: list[int], pieces: list[str], facts: TokenFacts, first: int) -> list[dict[str, Any]]:
        """What each token's probability came from; places count from the first token of the prompt."""
        made = []
        for row, (token, piece) in enumerate(zip(ids, pieces, strict=True)):
            places = {
                name: [
                    [at, round(share, 4)]
                    for at, share in zip(of.at[row].tolist(), of.share[row].tolist(), strict=True)
                    if at >= 0
                ]
                for name, of in facts.places.items()
                if of.documents is None
            }
            shares = {name: round(float(share[row]), 4) for name, share in facts.shares.items()}
            log_prob = json_number(float(facts.log_prob[row]))
            made.append(
                {
                    "id": token, "piece": piece, "place": first + row, "log_prob": log_prob,
                    "rank": int(facts.rank[row]), "entropy": float(facts.entropy[row]), "shares": shares,
                    "places": places,
                }
            )  # fmt: skip
        return made

    def _label(self, token: int) -> str:
        text: str = self._tokenizer.decode([token], clean_up_tokenization_spaces=False)
        # parts of characters all have the same text
        return token_label(self._tokenizer, token) if not text or "\N{REPLACEMENT CHARACTER}" in text else text


def _cut(answer: Answer, stops: list[str]) -> None:
    """Leaves out the text from the first stop on, and the tokens that have nothing before it."""
    end = min(answer.text.find(stop) for stop in stops if stop in answer.text)
    kept = ""
    for place, piece in enumerate(answer.pieces):
        answer.pieces[place] = piece[: max(end - len(kept), 0)]
        kept += piece


def _ends(how: Any) -> list[int]:
    ends = how.eos_token_id
    return [] if ends is None else [ends] if isinstance(ends, int) else list(ends)


def _usage(ids: list[int], answer: Answer) -> dict[str, Any]:
    total = len(ids) + len(answer.ids)
    usage: dict[str, Any] = {
        "prompt_tokens": len(ids), "completion_tokens": len(answer.ids), "total_tokens": total,
    }  # fmt: skip
    if answer.drafted is not None:
        names = ("accepted_prediction_tokens", "rejected_prediction_tokens")
        usage["completion_tokens_details"] = dict(zip(names, answer.drafted, strict=True))
    return usage


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False, separators=(',', ':'), allow_nan=False)}\n\n"
