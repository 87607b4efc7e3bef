"""A server of ``nextword serve`` in a thread, at a real address."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import torch
import uvicorn
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.serving.http.app import build_app
from nextword.serving.http.serve_settings import ServeSettings
from tests.helpers.text_tokenizers import byte_level

POSITIONS = 96


def small_model(head: Any = "cache", **settings: Any) -> OpenedModel:
    """A random GPT-2 with wide weights and a tokenizer of bytes."""
    tokenizer = byte_level()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=POSITIONS, n_embd=16, n_layer=2, n_head=2, bos_token_id=None,
        eos_token_id=None, **settings,
    )  # fmt: skip
    backbone = GPT2LMHeadModel(config)
    for weight in backbone.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=1.5 / weight.shape[-1] ** 0.5)
    return OpenedModel.of(nw.attach(backbone, head).eval(), tokenizer, name="small")


@dataclass
class Running:
    """A server that runs.

    Attributes:
        address: Where it listens.
        client: Asks it.
        opened: Its model.
        server: uvicorn's.
        thread: In which it runs.
    """

    address: str
    client: httpx.Client
    opened: OpenedModel
    server: uvicorn.Server
    thread: threading.Thread

    def complete(self, prompt: Any, **fields: Any) -> httpx.Response:
        """Asks for a completion, greedy unless told otherwise."""
        content = {"prompt": prompt, "temperature": 0, **fields}
        return self.client.post("/v1/completions", json=content)

    def expect_idle(self) -> None:
        """Waits until the batches have no request, and sees that all of the cache is free again."""
        deadline = time.monotonic() + 10
        while self.metric("nextword_requests_batched") or self.metric("nextword_requests_active"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert self.metric("nextword_cache_free_ratio") == 1

    def metric(self, name: str) -> float:
        """A number of ``/metrics``, 0 where there is none yet."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split(" ")[0].startswith(name))


def slowed(opened: OpenedModel, seconds: float) -> OpenedModel:
    """A model each of whose passes takes so long at least."""
    opened.model.backbone.register_forward_pre_hook(lambda *_: time.sleep(seconds))
    return opened


@contextlib.contextmanager
def running(opened: OpenedModel, grace: int = 5, **settings: Any) -> Iterator[Running]:
    """Serves a model until the block ends.

    Args:
        opened: The model.
        grace: Seconds that requests at work have when the server is to stop.
        **settings: Others than those of a small server.
    """
    app = build_app(opened, ServeSettings(**{"cache_tokens": 4096, "batch_tokens": 256, "device": "cpu", **settings}))
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=grace, lifespan="on")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            yield Running(address, client, opened, server, thread)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
