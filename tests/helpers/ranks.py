"""A function in several connected processes, as torchrun would run it, without the seconds of torchrun's start.

A server imports the libraries once, and each process is a copy of it.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import torch


def ranks(count: int, function: Callable[..., None], *arguments: Any, seconds: float = 120) -> list[int]:
    """Calls a function in so many processes; when one of them fails, the others are killed, as torchrun does.

    Returns:
        The exit code of each, that of a signal below zero.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["nextword.experiments.training.one_training", "transformers.models.gpt2", "tests.helpers.ranks"]
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [
        context.Process(target=_one, args=(rank, count, port, function, arguments), daemon=True)
        for rank in range(count)
    ]
    for process in started:
        process.start()
    end, running = time.monotonic() + seconds, list(started)
    while running and time.monotonic() < end:
        wait([process.sentinel for process in running], timeout=1)
        running = [process for process in running if process.exitcode is None]
        if any(process.exitcode for process in started):
            break
    for process in running:
        process.kill()
    for process in started:
        process.join()
    return [process.exitcode or 0 for process in started]


def _one(rank: int, count: int, port: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in places.items()} | {"MASTER_ADDR": "127.0.0.1"}
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_CBWR": "COMPATIBLE"}
    torch.set_num_threads(1)
    function(*arguments)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
