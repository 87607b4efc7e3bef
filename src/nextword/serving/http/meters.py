"""Numbers of a server in the form of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Meters:
    """What is counted; a registry of its own, so that several servers may live in one process."""

    def __init__(self) -> None:
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

    def text(self) -> bytes:
        """All of them, to be scraped."""
        return generate_latest(self._registry)
