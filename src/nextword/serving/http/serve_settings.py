"""Addresses and limits of a server."""

from __future__ import annotations

from pydantic import Field

from nextword.settings.config import Settings


class ServeSettings(Settings):
    """Where a server listens, and how much it takes on."""

    host: str = "127.0.0.1"
    """Address to listen on. 127.0.0.1: this machine alone. 0.0.0.0: every network; then set a key."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port; 0: any free one."""
    api_key: str | None = None
    """What clients must send as 'Authorization: Bearer KEY'; also NEXTWORD_API_KEY. By default none."""
    longest: int | None = Field(default=None, ge=2)
    """Tokens of prompt and answer together; by default what the model has positions for, at most 4,096."""
    queue: int = Field(default=100, ge=1)
    """Requests at work and waiting; one more gets status 429."""
    seconds: float = Field(default=300.0, gt=0)
    """Time for one request; then it ends with status 504, or as it is if it has begun to stream."""
    cache_tokens: int = Field(default=16384, ge=256)
    """Tokens that the cache holds, of all requests together."""
    batch_tokens: int = Field(default=1024, ge=16)
    """Tokens that one pass reads at most; longer prompts are read in pieces."""
    remember: int = Field(default=0, ge=0)
    """Tokens of prompts and answers of all clients that the head knn retrieves from, the oldest forgotten first; 0:
    none."""
    device: str = "auto"
    """cpu, cuda, cuda:1; auto: the best there is."""
