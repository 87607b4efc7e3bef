"""Started by torchrun: how much memory of its own a process needs to load a saved model and share it (FSDP2).

    torchrun --nproc-per-node 2 tests/helpers/start_memory.py FOLDER

Pages of the weights' file do not count: processes share them, and the system takes them back when it needs room.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import torch.distributed as dist

import nextword as nw
from nextword.training.sharding import shard


def own_bytes() -> int:
    """Memory of this process that no file stands behind (Linux)."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1]) * 1024


def main(folder: Path) -> None:
    """Writes ``memory-RANK.json``: bytes of the model, and the most that the process needed beyond what it had."""
    dist.init_process_group("gloo")
    before, seen, done = own_bytes(), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.append(own_bytes())
            time.sleep(0.005)

    watching = threading.Thread(target=watch)
    watching.start()
    model = nw.load(folder)
    shard(model)
    done.set()
    watching.join()
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    found = {"model": size, "peak": max(*seen, own_bytes()) - before}
    (folder / f"memory-{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
