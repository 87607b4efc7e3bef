"""Addresses and limits of a server."""

from __future__ import annotations

from pydantic import Field

from nextword.settings.config import Settings


class ServeSettings(Settings):
    """Address and limits of a server."""

    host: str = "127.0.0.1"
    """Address to listen on. 127.0.0.1: only this machine. 0.0.0.0: all networks; set an API key too."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port; 0: any free port."""
    api_key: str | None = None
    """Key that clients must send as 'Authorization: Bearer KEY'; also read from NEXTWORD_API_KEY. By default none."""
    longest: int | None = Field(default=None, ge=2)
    """Maximum number of tokens of prompt and answer together; by default the model's maximum, but at most 4,096."""
    queue: int = Field(default=100, ge=1)
    """Maximum number of running and waiting requests; further requests get status 429."""
    seconds: float = Field(default=300.0, gt=0)
    """Time limit of a request in seconds. A longer request ends with status 504 or, if it streams, without further
    tokens."""
    cache_tokens: int = Field(default=16384, ge=256)
    """Size of the KV cache in tokens, for all requests together."""
    batch_tokens: int = Field(default=1024, ge=16)
    """Maximum number of tokens per forward pass; longer prompts are split."""
    remember: int = Field(default=0, ge=0)
    """Only for the head knn, which can retrieve this many of the most recent tokens of all clients' prompts and
    answers. 0: none."""
    device: str = "auto"
    """Device: cpu, cuda, cuda:1, ...; auto: an accelerator if there is one."""
