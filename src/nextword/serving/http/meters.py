"""Numbers of a server in the form of Prometheus."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Batches(Protocol):
    """What is asked of the batches whenever the numbers are read."""

    @property
    def requests(self) -> int:
        """Requests that they have."""
        ...

    @property
    def free(self) -> float:
        """Share of the cache that no request occupies."""
        ...


class Meters:
    """What is counted; a registry of its own, so that several servers may live in one process.

    Args:
        batches: Where tokens are written.
    """

    def __init__(self, batches: Batches) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "nextword_requests", "Requests by path and status.", ["path", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "nextword_request_seconds", "Time of a request, from its first byte to the last of the answer.", ["path"],
            registry=self._registry,
        )  # fmt: skip
        self.active = Gauge("nextword_requests_active", "Requests at work and waiting.", registry=self._registry)
        self.tokens = Counter("nextword_tokens", "Tokens read and written.", ["of"], registry=self._registry)
        batched = Gauge("nextword_requests_batched", "Requests in the batches.", registry=self._registry)
        batched.set_function(lambda: batches.requests)
        free = Gauge("nextword_cache_free_ratio", "Share of the cache that is free.", registry=self._registry)
        free.set_function(lambda: batches.free)

    def text(self) -> bytes:
        """All of them, to be scraped."""
        return generate_latest(self._registry)
