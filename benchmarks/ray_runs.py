"""Measures cost and gain of executing the runs of a comparison as tasks of Ray.

The same comparison, from the same trained initial checkpoint, runs in three ways, interleaved: one run after another in
one process, as tasks of Ray one at a time, and as parallel tasks with one core each. ``over_sequential`` is the time
relative to the first way. ``overhead_s`` is the additional time per run if Ray executes one at a time. Ray is started
once (``ray_start_s``). Every run has one thread. Rows are appended to ``benchmarks/data/ray_runs.csv``.

    python benchmarks/ray_runs.py
    python benchmarks/ray_runs.py --steps 400 --seeds 8
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from interleaved import interleaved, ratio, seconds_of
from options import at_least, parser, settled
from rows import append, surroundings

from nextword.experiments.comparison.all_methods import compare, make_start
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.comparison.engines.engine import Engine, Resources, Sequential
from nextword.experiments.comparison.engines.ray_engine import RayEngine
from nextword.runtime.progress import Watcher

BASELINE = "sequential"


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes the rows."""
    options = parser(__doc__, "ray_runs", rounds=3)
    options.add_argument("--seeds", type=at_least(1), default=2, help="seeds for each of the two methods")
    options.add_argument("--steps", type=at_least(1), default=200, help="steps of each training")
    given = settled(options, argv, seeds=1, steps=2)
    import ray

    began = time.perf_counter()
    ray.init(include_dashboard=False, logging_level="WARNING")
    started = time.perf_counter() - began
    cores = int(ray.cluster_resources()["CPU"])
    engines: dict[str, Engine] = {
        BASELINE: Sequential(),
        "ray, one at a time": RayEngine(Resources(cpus=cores)),
        "ray, side by side": RayEngine(Resources(cpus=1)),
    }
    recipe = {
        "task": {"name": "ambiguous"}, "methods": ["softmax", "cache"], "seeds": list(range(given.seeds)),
        "threads": 1, "training": {"steps": given.steps}, "start": {"training": {"steps": given.steps}},
    }  # fmt: skip
    config = configured(recipe)
    with tempfile.TemporaryDirectory() as folder:
        origin = Path(folder) / "start"
        make_start(config, origin, Watcher(), "benchmark")

        def seconds(engine: Engine) -> float:
            place = Path(shutil.copytree(origin, Path(folder) / "comparison"))
            taken = seconds_of(lambda: compare(config, place, engine=engine))
            shutil.rmtree(place)
            return taken

        torch.set_num_threads(1)
        timed = interleaved(
            {name: lambda engine=engine: seconds(engine) for name, engine in engines.items()}, given.rounds
        )
    runs = 2 * given.seeds
    rows = [
        {
            "engine": name, "cores": cores, "runs": runs, "steps": given.steps,
            "s": round(statistics.median(own), 2), "over_sequential": round(ratio(own, timed[BASELINE]), 3),
            "overhead_s": round(statistics.median(a - b for a, b in zip(own, timed[BASELINE], strict=True)) / runs, 2),
            "ray_start_s": round(started, 2), **surroundings(),
        }
        for name, own in timed.items()
    ]  # fmt: skip
    for row in rows:
        print("  ".join(f"{name} {row[name]}" for name in ("engine", "runs", "s", "over_sequential", "overhead_s")))
    append(given.out, rows)


if __name__ == "__main__":
    main()
