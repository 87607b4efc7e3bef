"""Checks of every request (API key, size, queue, time limit, disconnected client), and metrics of all requests."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from nextword.serving.http.batches import SharedBatches
from nextword.serving.http.serve_settings import ServeSettings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_OPEN = ("/", "/health")
"""Paths that need no API key, because they do not use the model."""
_LARGEST = 8 * 2**20
"""Maximum number of bytes of a request."""
KNOWN = frozenset({"/", "/health", "/metrics", "/v1/models", "/v1/completions", "/v1/chat/completions", "/inspect"})
"""Paths that have metrics of their own."""


class Admission:
    """ASGI middleware that checks requests against ``settings``, counts them, and rejects or passes them to ``app``."""

    def __init__(self, app: Any, settings: ServeSettings, meters: Meters) -> None:
        self._app, self._settings, self._meters = app, settings, meters
        self._active = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Rejects a request, or passes it to the inner application ``app``."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, reply = time.perf_counter(), _Reply(send)
        # all unknown paths share one counter
        path = scope["path"] if scope["path"] in KNOWN else "other"
        try:
            if (refusal := self._refusal(scope)) is not None:
                if refusal[0] not in (411, 413):
                    await _read(receive)  # otherwise the connection would break before the client gets the answer
                await reply.error(*refusal)
            elif scope["method"] == "GET":
                await self._app(scope, receive, reply.send)
            else:
                await self._in_time(scope, receive, reply)
        finally:
            self._meters.requests.labels(path, str(reply.status)).inc()
            self._meters.seconds.labels(path).observe(time.perf_counter() - begun)

    def _refusal(self, scope: MutableMapping[str, Any]) -> tuple[int, str] | None:
        headers = dict(scope["headers"])
        key = self._settings.api_key
        given = headers.get(b"authorization", b"")
        keyless = scope["path"] in _OPEN or scope["path"].startswith("/inspected/")
        if key and not keyless and not hmac.compare_digest(given, f"Bearer {key}".encode()):
            return 401, "API key: missing or wrong; send it as 'Authorization: Bearer KEY'"
        if b"transfer-encoding" in headers:
            return 411, "Content-Length: missing; send the length of the request"
        if int(headers.get(b"content-length", b"0") or 0) > _LARGEST:
            return 413, f"the request must have at most {_LARGEST:,} bytes"
        if scope["method"] == "POST" and self._active >= self._settings.queue:
            return 429, f"{self._active} requests are running or waiting, which is the maximum; try again later"
        return None

    async def _in_time(self, scope: MutableMapping[str, Any], receive: Receive, reply: _Reply) -> None:
        client = _Client(receive)
        self._active += 1
        self._meters.active.set(self._active)
        work = asyncio.ensure_future(self._app(scope, client.receive, reply.send))
        gone = asyncio.ensure_future(client.gone())
        try:
            await asyncio.wait({work, gone}, timeout=self._settings.seconds, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                if not gone.done():
                    await reply.error(504, f"the request took longer than {self._settings.seconds:g} seconds")
                return
            work.result()
        finally:
            work.cancel()  # the work is not done yet if the server stops before the answer has ended
            gone.cancel()
            self._active -= 1
            self._meters.active.set(self._active)


async def _read(receive: Receive) -> None:
    while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
        pass


class _Client:
    """Receives a client's request and notices when the client disconnects."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._whole, self._gone = asyncio.Event(), asyncio.Event()

    async def receive(self) -> Message:
        if self._whole.is_set():  # after the whole request, the only further message is that the client disconnects
            await self._gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._whole.set()
        return message

    async def gone(self) -> None:
        await self._whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()


class _Reply:
    """Sends a reply to a client, and records its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 499  # remains if the client disconnects before it gets an answer
        self._begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self._begun = message["status"], True
        await self._send(message)

    async def error(self, status: int, text: str) -> None:
        if self._begun:  # a streamed answer ends without an error message
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        body = error_body(text, "server_error" if status >= 500 else "invalid_request_error")
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(b"retry-after", b"1")] if status == 429 else []
        headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def error_body(text: str, kind: str) -> bytes:
    """The body of an error response in OpenAI's format: message ``text``, type ``kind``."""
    return json.dumps({"error": {"message": text, "type": kind, "code": None}}, ensure_ascii=False).encode()


class Meters:
    """Metrics for Prometheus. They have a separate registry, so that one process can run several servers."""

    def __init__(self, batches: SharedBatches) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "nextword_requests", "Requests by path and status.", ["path", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "nextword_request_seconds", "Time of a request, from its first byte to the last of the answer.", ["path"],
            registry=self._registry,
        )  # fmt: skip
        self.active = Gauge("nextword_requests_active", "Running and waiting requests.", registry=self._registry)
        self.tokens = Counter("nextword_tokens", "Tokens of prompts and answers.", ["of"], registry=self._registry)
        batched = Gauge("nextword_requests_batched", "Requests in the batches.", registry=self._registry)
        batched.set_function(lambda: batches.requests)
        free = Gauge("nextword_cache_free_ratio", "Share of the cache that is free.", registry=self._registry)
        free.set_function(lambda: batches.free)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
