"""Runs side by side: each is a task of Ray, on the cores and GPUs of this machine or of a cluster."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.comparison.engines.attempt import failed
from nextword.experiments.comparison.engines.engine import Engine, Outcome, Resources, registry
from nextword.experiments.comparison.engines.ray_task import Deliveries, Mailbox, Work, carried_out
from nextword.experiments.comparison.engines.shared_trainings import startable
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.runtime import optional_libraries as extras
from nextword.runtime import processes
from nextword.settings import plugins
from nextword.settings.setting_names import named

_LOOKS_EVERY = 0.5
"""Seconds after which the watcher is told what is new, and runs that waited for a training are looked at again."""

_PATIENCE = 60.0
"""Seconds that tasks have to end in when they are cancelled."""


@registry.register("ray")
class RayEngine(Engine):
    """Ray decides where and when a run is carried out; it begins when the trainings that it shares are finished.

    ``ray.init()`` is called where nobody has called it: it joins the cluster that Ray finds (``RAY_ADDRESS``), or
    starts Ray on this machine, until this process ends. A task is not repeated: a machine that is only out of sight
    might still be writing. What ended is a failed run, and the next call goes on with it.
    """

    def expect(self, config: CompareConfig) -> None:
        """Starts Ray.

        Raises:
            ValueError: Ray is not installed, the processes of torchrun are at work, or no machine has what a run takes.
        """
        if extras.missing(["ray"]):
            raise ValueError(f"{named('engine')}: ray is not installed; {extras.install('ray')}")
        if processes.count() > 1:
            raise ValueError(
                f"{named('engine')}: must be sequential under a launcher of several processes ({processes.count()} "
                "given); start nextword without torchrun"
            )
        ray = _started()
        if os.environ.get("RAY_ADDRESS"):
            return  # machines may join when there is work for them
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        taken = self._taken(config, ray)
        for option, resource, wanted in (("cpus", "CPU", taken.cpus), ("gpus", "GPU", taken.gpus)):
            most = max((machine.get(resource, 0) for machine in machines), default=0)
            if wanted is not None and wanted > most:
                raise ValueError(
                    f"--{option}: must be at most {most:g}, what a machine has here ({wanted:g} given); ask for less, "
                    "or set RAY_ADDRESS to a cluster"
                )

    def outcomes(self, runs: Sequence[Run], setting: Setting) -> Generator[tuple[Run, Outcome], None, None]:
        """In the order in which they are done."""
        ray = _started()
        taken = self._taken(setting.config, ray)
        mailbox = ray.remote(Mailbox).options(num_cpus=0).remote()
        task = ray.remote(carried_out).options(num_cpus=taken.cpus, num_gpus=taken.gpus, max_retries=0)
        deliveries = Deliveries(mailbox, setting.stages.progress)
        work = ray.put(_work(setting, taken))
        waiting, running = list(runs), dict[Any, Run]()
        try:
            while waiting or running:
                for run in startable(waiting, running.values(), setting):
                    waiting.remove(run)
                    running[task.remote(work, run, mailbox)] = run
                done, _ = ray.wait(list(running), timeout=_LOOKS_EVERY)
                deliveries.deliver()
                for reference in done:
                    run = running.pop(reference)
                    yield run, _outcome(ray, reference, run, setting, deliveries)
        finally:
            _end(ray, list(running))
            ray.kill(mailbox)

    def _taken(self, config: CompareConfig, ray: Any) -> Resources:
        """What each run takes, where nothing else was asked for."""
        cpus = self.resources.cpus or config.threads or 1
        gpus = self.resources.gpus
        return Resources(cpus, min(1.0, ray.cluster_resources().get("GPU", 0.0)) if gpus is None else gpus)


def _started() -> Any:
    """The library, connected."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody asked for a message to its makers
    import ray

    if not ray.is_initialized():
        ray.init(include_dashboard=False, logging_level="WARNING")
    return ray


def _work(setting: Setting, taken: Resources) -> Work:
    return Work(
        config=setting.config,
        settings=setting.settings,
        start=setting.start,
        folder=setting.folder.path,
        directory=Path.cwd(),
        threads=taken.cpus or 1,
        modules=tuple(one.module for one in plugins.plugins() if one.package is None),
    )


def _outcome(ray: Any, reference: Any, run: Run, setting: Setting, deliveries: Deliveries) -> Outcome:
    answer: Outcome | Exception
    try:
        answer, posted = ray.get(reference)
    except ray.exceptions.RayError as problem:  # its process was ended, or could not begin
        return failed(run, setting, problem)
    deliveries.deliver_all(run, posted)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _end(ray: Any, references: list[Any]) -> None:
    """Ends tasks at once, as a killed process would end, and waits until they are gone: the folder is free then."""
    for reference in references:
        ray.cancel(reference, force=True)
    if references:
        ray.wait(references, num_returns=len(references), timeout=_PATIENCE)
