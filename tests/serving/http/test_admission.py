"""What stands around all requests of ``nextword serve``."""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.helpers.running_server import running, slowed, small_model

PROMPT = "The king sat on the throne. The"


def test_a_key_is_asked_for():
    with running(small_model("softmax"), api_key="secret") as found:
        assert found.complete("x").status_code == 401
        assert found.client.get("/v1/models").status_code == 401
        assert found.client.get("/metrics").status_code == 401
        assert found.client.get("/health").status_code == 200
        given = {"Authorization": "Bearer secret"}
        assert (
            found.client.post("/v1/completions", json={"prompt": "x", "max_tokens": 2}, headers=given).status_code
            == 200
        )


@pytest.mark.parametrize(("asked", "queue"), [(40, 4), pytest.param(1000, 100, marks=[pytest.mark.slow])])
def test_a_full_queue(asked, queue):
    async def ask_all(address):
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
            content = {"prompt": "x", "max_tokens": 3, "temperature": 0}
            return await asyncio.gather(*(client.post("/v1/completions", json=content) for _ in range(asked)))

    with running(small_model(), queue=queue) as found:
        answers = asyncio.run(ask_all(found.address))
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {200, 429}
        assert statuses.count(200) >= queue
        assert len({answer.json()["choices"][0]["text"] for answer in answers if answer.status_code == 200}) == 1
        assert {answer.headers.get("retry-after") for answer in answers if answer.status_code == 429} == {"1"}
        assert found.metric("nextword_requests_active") == 0
        assert found.complete("x", max_tokens=3).status_code == 200


@pytest.mark.slow
def test_a_client_that_hangs_up_frees_its_place():
    """Its request leaves the batches, long before all of its tokens are written, and its part of the cache is free."""
    content = {"prompt": "x", "max_tokens": 90, "temperature": 0}
    with running(slowed(small_model(), 0.05)) as found:
        with found.client.stream("POST", "/v1/completions", json=content | {"stream": True}) as response:
            lines = response.iter_lines()  # kept: its end would be the end of the answer
            next(lines)
            assert found.metric("nextword_requests_batched") == 1
            assert found.metric("nextword_cache_free_ratio") < 1
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{found.address}/v1/completions", json=content, timeout=0.3)
        found.expect_idle()
        assert found.metric('nextword_tokens_total{of="answer"}') < 60
        assert found.complete("x", max_tokens=2).status_code == 200


def test_a_request_that_takes_too_long():
    with running(small_model(), seconds=0.05) as found:
        answer = found.complete("x", max_tokens=90)
        assert answer.status_code == 504
        assert "longer than 0.05 seconds" in answer.json()["error"]["message"]
        assert found.metric("nextword_requests_active") == 0
        found.expect_idle()


def test_a_stream_that_takes_too_long_ends_as_it_is():
    content = {"prompt": "x", "max_tokens": 90, "temperature": 0, "stream": True}
    with running(slowed(small_model(), 0.05), seconds=1) as found:
        with found.client.stream("POST", "/v1/completions", json=content) as response:
            lines = [line for line in response.iter_lines() if line]
        assert response.status_code == 200
        assert 1 <= len(lines) < 40
        assert lines[-1] != "data: [DONE]"
        found.expect_idle()


@pytest.mark.slow
def test_a_stream_that_outlasts_the_time_to_stop():
    content = {"prompt": "x", "max_tokens": 90, "temperature": 0, "stream": True}
    with running(slowed(small_model(), 0.05), grace=1) as found:
        begun = time.monotonic()
        with (
            contextlib.suppress(httpx.RemoteProtocolError),
            found.client.stream("POST", "/v1/completions", json=content) as response,
        ):
            lines = response.iter_lines()
            next(lines)
            found.server.should_exit = True
            assert "data: [DONE]" not in list(lines)
        found.thread.join(10)
        assert not found.thread.is_alive()
        assert 1 <= time.monotonic() - begun < 4, "all 90 tokens take longer"


def test_a_request_that_is_too_large(served):
    answer = served.client.post("/v1/completions", json={"prompt": "x" * (8 * 2**20 + 1)})
    assert answer.status_code == 413
    assert "at most 8,388,608 bytes" in answer.json()["error"]["message"]
    parts = (part for part in (b'{"prompt": "x", ', b'"max_tokens": 1}'))
    assert served.client.post("/v1/completions", content=parts).status_code == 411
    assert served.complete("x", max_tokens=1).status_code == 200


@pytest.mark.slow
def test_two_thousand_requests_leave_no_memory_behind(served):
    import psutil

    def ask(_):
        return served.complete(PROMPT, max_tokens=2).status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(400))) == {200}
        process = psutil.Process()
        before = process.memory_info().rss
        assert set(pool.map(ask, range(1600))) == {200}
    assert process.memory_info().rss - before < 48 * 2**20


@pytest.mark.slow
def test_no_memory_stays_behind_streams_sources_and_clients_that_hang_up(served):
    import psutil

    def ask(number):
        content = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "sources": number % 2 == 0, "logprobs": 2}
        if number % 4 < 2:
            return served.client.post("/v1/completions", json=content).status_code
        with served.client.stream("POST", "/v1/completions", json=content | {"stream": True}) as response:
            for _ in response.iter_lines():
                if number % 4 == 2:
                    break  # hangs up
        return response.status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(400))) == {200}
        process = psutil.Process()
        before = process.memory_info().rss
        assert set(pool.map(ask, range(1600))) == {200}
    assert process.memory_info().rss - before < 48 * 2**20
    served.expect_idle()
