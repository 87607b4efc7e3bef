"""What a request to ``/v1/completions`` may hold: OpenAI's fields, and ``sources``, ``top_k`` and ``draft`` of ours."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from nextword.serving.http.answer_forms import TEXT, AnswerForm
from nextword.serving.http.answer_request import RIVALS, AnswerRequest, TokenIds


class CompletionRequest(AnswerRequest):
    """Texts to go on with."""

    form: ClassVar[AnswerForm] = TEXT

    prompt: list[Annotated[str, Field(min_length=1)] | TokenIds] = Field(min_length=1)
    """A text or token ids, or several."""
    max_tokens: int = Field(default=256, ge=0)
    """Tokens of the answer at most; 0 with ``echo``: the prompt alone."""
    logprobs: int | None = Field(default=None, ge=0, le=RIVALS)
    """How many rivals of each token are named, with log-probabilities."""
    echo: bool = False
    """Whether the answer begins with the prompt, of whose tokens log-probabilities are told too."""
    best_of: int | None = None
    """Must be ``n``: the answers are not ranked."""

    @field_validator("prompt", mode="before")
    @classmethod
    def _one_prompt_or_several(cls, prompt: Any) -> Any:
        is_one = isinstance(prompt, str) or (isinstance(prompt, list) and prompt and isinstance(prompt[0], int))
        return [prompt] if is_one else prompt

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if not self.max_tokens and not self.echo:
            raise ValueError("max_tokens: must be at least 1 (0 given) where echo is not true")
        if self.best_of not in (None, self.n):
            raise ValueError(f"best_of: must be n, which is {self.n} ({self.best_of} given); leave it out")
        return self

    @property
    def most(self) -> int:
        """As in the contract."""
        return self.max_tokens

    @property
    def rivals(self) -> int | None:
        """As in the contract."""
        return self.logprobs

    @property
    def echoes(self) -> bool:
        """As in the contract."""
        return self.echo

    def rows(self, tokenizer: Any) -> list[list[int]]:
        """As in the contract."""
        rows = [tokenizer(one)["input_ids"] if isinstance(one, str) else one for one in self.prompt]
        if not all(rows):
            raise ValueError("prompt: must have a token (none in this text); write a word")
        return rows
