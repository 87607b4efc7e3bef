"""The web application of ``nextword serve`` for one model."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from nextword.inference.datastore import remember_recent
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.model.continuous_batching import expect_batchable
from nextword.model.forward.output_layer import weights_at_fault
from nextword.results.report.inspection_page import playground_page
from nextword.serving.http.admission import Admission, Meters, error_body
from nextword.serving.http.batches import SharedBatches
from nextword.serving.http.completions import Completions
from nextword.serving.http.pages import AnswerFacts, InspectedPages, twin
from nextword.serving.http.requests import ChatRequest, CompletionRequest, RequestPart, TokenIds, read_request
from nextword.serving.http.serve_settings import ServeSettings
from nextword.serving.http.single_texts import SingleTexts


class InspectRequest(RequestPart):
    """A request for the page that inspects an answer: the token ids of the answer, and the prompt before it."""

    prompt: str
    ids: TokenIds


def build_app(opened: OpenedModel, settings: ServeSettings) -> Admission:
    """Builds the application for the model ``opened``, and starts its continuous batching, which runs until shutdown.

    Raises:
        ValueError: If the model does not support batched requests, or its weights are NaN.
    """
    if opened.model.config.is_encoder_decoder or opened.model.conditioner is not None:
        expect_batchable(opened.model, opened.model.generation_config, None)
    if fault := weights_at_fault(opened.model):
        raise ValueError(f"{opened.name}: {fault}")
    if settings.remember:
        remember_recent(opened, settings.remember)
    facts, batches = AnswerFacts(opened), SharedBatches(opened.model, settings)
    meters = Meters(batches)
    # with ``remember``, the twin's head would not have the texts that the served model remembers
    singles = None if settings.remember else SingleTexts(twin(facts.opened.model))
    remember = partial(facts.remember, opened.model) if settings.remember else None
    completions = Completions(opened.name, batches, facts, meters, singles, remember)
    pages = InspectedPages(facts)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        # in a thread, so that requests that have not ended in time can be cancelled meanwhile
        await asyncio.to_thread(batches.shutdown)
        facts.close()
        completions.close()

    app = FastAPI(title="nextword", lifespan=lifespan, docs_url=None, redoc_url=None)
    _explain_errors(app)
    _answer_as_openai(app, completions)

    @app.get("/")
    def playground() -> HTMLResponse:
        page = playground_page(opened.name, opened.model.config.spec, needs_key=settings.api_key is not None)
        return HTMLResponse(page.html, headers=page.headers)

    @app.get("/health")
    def health() -> JSONResponse:
        alive = batches.is_alive
        return JSONResponse({"status": "ok" if alive else "batching has stopped"}, 200 if alive else 503)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(meters.text(), media_type="text/plain; version=0.0.4")

    @app.post("/inspect")
    async def inspect(request: Request) -> dict[str, Any]:
        asked = read_request(InspectRequest, await request.body())
        return await pages.make(asked.prompt, asked.ids)

    @app.get("/inspected/{name}")
    def inspected(name: str) -> HTMLResponse:
        page = pages.find(name)
        return HTMLResponse(page or "This page has expired; inspect the text again.", 200 if page else 404)

    return Admission(app, settings, meters)


def _answer_as_openai(app: FastAPI, completions: Completions) -> None:
    served = {"id": completions.name, "object": "model", "created": int(time.time()), "owned_by": "nextword"}

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [served]}

    @app.get("/v1/models/{name:path}")
    def model(name: str) -> dict[str, Any]:
        completions.expect_served(name)
        return served

    @app.post("/v1/completions")
    async def complete(request: Request) -> Any:
        return await completions.answer(read_request(CompletionRequest, await request.body()))

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Any:
        return await completions.answer(read_request(ChatRequest, await request.body()))


def _explain_errors(app: FastAPI) -> None:
    def answer(status: int, text: str, kind: str = "invalid_request_error") -> Response:
        return Response(error_body(text, kind), status, media_type="application/json")

    @app.exception_handler(ValueError)
    async def refused(request: Request, problem: ValueError) -> Response:
        return answer(400, str(problem))

    @app.exception_handler(LookupError)
    async def unknown(request: Request, problem: LookupError) -> Response:
        return answer(404, str(problem.args[0]))

    @app.exception_handler(RuntimeError)
    async def broken(request: Request, problem: RuntimeError) -> Response:
        return answer(500, str(problem), "server_error")


def run(opened: OpenedModel, settings: ServeSettings, say: Callable[[str], None]) -> None:
    """Serves ``opened`` until the process gets a stop signal. Running requests then have ten seconds to finish.

    ``say`` is called once with the server's address, before the server accepts requests.

    Raises:
        ValueError: If ``build_app`` raises it, or if the address is in use.
    """
    import uvicorn

    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, settings.port))
        except OSError as problem:
            raise ValueError(
                f"--port: must be free ({settings.host}:{settings.port} given: {problem.strerror}); choose another one"
            ) from None
        app = build_app(opened, settings)
        host = "localhost" if settings.host == "127.0.0.1" else settings.host
        say(f"http://{host}:{listening.getsockname()[1]}")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=10, lifespan="on")
        uvicorn.Server(config).run(sockets=[listening])
