"""``nextword evaluate``: compute metrics of the texts of one or several systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nextword.cli.parts.completion import complete_metric
from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import fields_of, systems_of

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        help="A metric ('nextword list metrics'), for instance self-bleu:2,3, or several: distinct,rep. May be "
        "repeated. The default, all, means every metric that needs no large model and finds its fields in the samples.",
        autocompletion=complete_metric,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of a metric, for instance mauve.model=gpt2, or of the evaluation: human=false, "
        "paired=false, wins=[...], device=cuda, batch_size=64, processes=4, resamples=5000, seed=1.",
    ),
]


@plain_errors
def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]FILE...",
            help="Samples files with one JSON object per line, or plain-text files. NAME is the name of a system; "
            "files with the same NAME are its seeds. A file without NAME is a system named after the file.",
        ),
    ],
    metrics: Metrics = None,
    settings: Settings = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Folder, GGUF file or hub name of the tokenizer whose tokens are counted; by default the token ids in "
            "the samples are counted, or words if the samples have no ids."
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=KEY", help="Map a field to its name in the files, for instance text=prediction."),
    ] = None,
    references: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of human references, one per text, in the same order; by default those in the samples.",
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the stored outputs of model-based metrics; by default FILE.features next to each FILE."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.json and report.html.")] = Path("evaluation"),
) -> None:
    """Measure generated texts: likelihood, diversity, repetition, closeness to human text, quality of summaries.

    Reads samples files, which 'nextword generate' writes, or plain text. A large model runs only if --metrics names a
    metric that needs one. Writes results.json and report.html, with confidence intervals, values of the human
    references, paired tests and a ranking.

    nextword evaluate samples.jsonl --metrics distinct --metrics self-bleu:2,3

    nextword evaluate a.txt b.txt --references human.txt

    nextword evaluate mle=mle-0.jsonl mle=mle-1.jsonl f2=f2-0.jsonl f2=f2-1.jsonl --tokenizer gpt2
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import WRITING_SECONDS, interruptible, print_line, this_command
    from nextword.cli.parts.watch import watching
    from nextword.evaluation import EvaluateConfig
    from nextword.evaluation.all_systems import evaluate_systems
    from nextword.results.records import locked
    from nextword.results.report import evaluation_tables, write_report
    from nextword.runtime.corpora.output_files import expect_inputs_kept, expect_results_folder
    from nextword.settings.config import validated
    from nextword.settings.overrides import overridden

    of_metrics = [one for one in settings or [] if "." in one.partition("=")[0]]
    content = {
        "systems": systems_of(files),
        "metrics": _with_settings(metrics or ["all"], of_metrics),
        "tokenizer": tokenizer,
        "fields": fields_of(field, "text=prediction"),
        "references": references,
        "features": features,
    }
    config = validated(EvaluateConfig, overridden(content, [one for one in settings or [] if one not in of_metrics]))
    read = [file for paths in config.systems.values() for file in paths]
    expect_inputs_kept({"--out": [out / "results.json", out / "report.html"]}, [*read, references, tokenizer])
    expect_results_folder(out / "results.json", "evaluate")
    console = Console()
    kept = "the outputs of model-based metrics so far are kept"
    with interruptible(kept), watching(console, "reading", Console(stderr=True)) as shown:

        def progress(stage: str, done: int, total: int) -> None:
            shown.now(stage, done / total if total else None)

        results = evaluate_systems(config, progress, this_command())
    with locked(out, this_command(), wait=WRITING_SECONDS):  # so that both files are of the same evaluation
        results.save(out / "results.json")
        write_report(results, out / "report.html")
    for table in evaluation_tables(results):
        console.print(table)
    print_line(console, f"Report: {(out / 'report.html').resolve()}")


def _with_settings(specs: list[str], settings: list[str]) -> list[str | dict[str, Any]]:
    """The metrics of ``--metrics`` with the changes of ``--set``. "all" may be combined with changed metrics."""
    from nextword.evaluation.metrics import parse_metric, registry
    from nextword.settings.overrides import overridden

    named: dict[str, dict[str, Any]] = {}
    # one option may have several names (distinct,rep); after a colon, commas separate settings
    for spec in specs:
        before = spec.partition(":")[0]
        if ":" in spec and "," in before:  # for example rep,distinct:1
            alone = [*before.split(",")[:-1], before.rpartition(",")[2] + spec[len(before) :]]
            written = " ".join(f"--metrics {name}" for name in alone)
            raise ValueError(f"--metrics {spec}: must name a single metric, because it has a setting; write {written}")
    specs = [name for spec in specs for name in ([spec] if ":" in spec else spec.split(","))]
    for spec in specs:
        if spec != "all":
            config = parse_metric(spec)
            if config.metric in named:
                raise ValueError(
                    f"metric '{config.metric}' must be given once (given twice); write all its settings in one "
                    f"--metrics"
                )
            named[config.metric] = config.model_dump(mode="json", exclude_unset=True)
    for one in settings:
        name = one.partition(".")[0]
        registry.get(name)  # raises an error that suggests the nearest known name
        if name not in named and "all" not in specs:
            raise ValueError(f"--set {one}: '{name}' must be one of the metrics to compute; add --metrics {name}")
        named.setdefault(name, {"metric": name})
    changed = overridden(named, settings)
    return [*changed.values(), *(["all"] if "all" in specs else [])]
