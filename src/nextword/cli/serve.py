"""``nextword serve``: serve a saved model over an OpenAI-compatible API, with a playground page."""

from __future__ import annotations

import contextlib
import os
from typing import Annotated

import typer

from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import option_groups
from nextword.serving.http.serve_settings import ServeSettings

LIBRARIES = ("fastapi", "uvicorn", "openai", "prometheus_client")


@plain_errors
@option_groups
def serve(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder of a saved model, a GGUF file or a name on the hub.")
    ],
    settings: ServeSettings,
) -> None:
    """Serve a model over an OpenAI-compatible HTTP API, with continuous batching and a playground page.

    Works for any decoder-only transformers model, with or without a nextword head. Ctrl-C stops the server.

    nextword serve runs/book

    curl localhost:8000/v1/completions -H 'Content-Type: application/json' -d '{"prompt": "The king", "sources":
    true}'
    """
    from nextword.runtime import optional_libraries as extras
    from nextword.runtime.pretrained import model_location

    if missing := extras.missing(LIBRARIES):
        raise ValueError(f"serve: {', '.join(missing)} not installed; {extras.install('serve')}")
    if settings.api_key is None and (key := os.environ.get("NEXTWORD_API_KEY")):
        settings = settings.model_copy(update={"api_key": key})
    model_location(model)

    from rich.console import Console

    from nextword.cli.parts.run_and_show import quiet_libraries
    from nextword.cli.parts.watch import watching
    from nextword.inference.scoring.opened_model import open_model
    from nextword.serving.http.app import run

    quiet_libraries()
    console = Console()
    with watching(console, "opening the model"):
        opened = open_model(model, settings.device)

    def say(address: str) -> None:
        console.print(f"{opened.name} at {address} (Ctrl-C stops it)", highlight=False)

    with contextlib.suppress(KeyboardInterrupt):  # raised only after the server has stopped
        run(opened, settings, say)
