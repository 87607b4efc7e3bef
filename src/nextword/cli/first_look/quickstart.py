"""``nextword quickstart``: a small comparison that needs no data and no network, and a test of a pretrained model."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from nextword.cli.parts.errors import plain_errors
from nextword.results.records import Results
from nextword.results.report import results_table
from nextword.results.report.formats import listing
from nextword.results.report.terminal import framed, right

if TYPE_CHECKING:
    from nextword.experiments.comparison.comparison_settings import CompareConfig
    from nextword.results.records import Results


ASKED = """Two words may come next, and nothing else may: "She could not choose between Paris and Italy, so in the end
she took a bus to". Which output layers rank both words in the top 2? The words, the prompts and a small GPT-2
are generated now.
"""
"""The question that the comparison answers, printed before its results."""

VOCABULARY, LISTED, WRITTEN = 1000, 20, 5
"""Vocabulary size, tokens in the list, and tokens that each model generates."""

NEXT = """
Next:
  nextword compare ambiguous --out runs/ambiguous                               seven methods, three seeds
  nextword train --data book.txt --model small --head cache --out runs/book     a model of a text of yours
  nextword list heads                                                           all heads"""
"""Commands to try next, printed at the end."""


@plain_errors
def quickstart(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY.PATH=VALUE]...", help="Settings that override the recipe, for instance training.steps=50."
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(min=1, help="Number of seeds: each method is trained once per seed, and the table shows means."),
    ] = 1,
    model: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub name of a decoder-only model to try at the end; by default models/smollm2-135m if that "
            "folder exists."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for all results.")] = Path("quickstart"),
) -> None:
    """Compare softmax with other heads on generated data. Takes about a minute on two cores.

    'nextword compare quickstart' runs the same built-in recipe. If there is a pretrained model (--model), quickstart
    then shows how this model continues a text with and without a cache.
    """
    from nextword.cli.first_look.real_model import FETCH, FETCHED, look_at
    from nextword.cli.parts.run_and_show import run_comparison
    from nextword.experiments.comparison.all_methods import cpu_threads
    from nextword.experiments.comparison.comparison_settings import configured, read
    from nextword.experiments.comparison.preflight import checked_task

    config = configured(read("quickstart"), [f"seeds={list(range(seeds))}", *(overrides or [])])
    checked_task(config)
    typer.echo(f"{untrained_line()}\n\n{ASKED}")
    results = run_comparison(config, out, shown=short_table)
    with cpu_threads(config.threads):
        page = write_prompt_page(config, results, out)
        if page is not None:
            typer.echo(f"One prompt, token by token: {page.resolve()}")
        if model is not None or FETCHED.is_dir():
            look_at(model or str(FETCHED), out)
        else:
            typer.echo(f"\n{FETCH}")
    typer.echo(NEXT)


def untrained_line() -> str:
    """Run the README's first example, an untrained GPT-2 that continues a repeated list, and describe the result."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    import nextword as nw

    sizes: dict[str, Any] = {"n_layer": 2, "n_head": 4, "n_embd": 64, "vocab_size": VOCABULARY}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        gpt2: Any = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
        held, ids = torch.randint(1, VOCABULARY, (2, LISTED)).repeat(1, 3)[:, None]
    losses, agree = [], []
    with torch.no_grad():
        for head in ("softmax", "cache"):
            model = nw.attach(gpt2.eval(), head)
            if head == "cache":
                nw.calibrate(model, held)
            losses.append(float(model(input_ids=ids, labels=ids).loss))
            written = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=WRITTEN, do_sample=False, pad_token_id=0
            )
            agree.append(int((written[0, 3 * LISTED :] == ids[0, :WRITTEN]).sum()))
    return (
        f"A GPT-2 with random weights reads a list of {LISTED} random tokens three times. Without a cache its loss "
        f"is {losses[0]:.1f} nats "
        f"per token, and it generates {agree[0]} of the next {WRITTEN} tokens of the list correctly. With a cache, "
        f"without "
        f"training: {losses[1]:.1f} nats and {agree[1]} of {WRITTEN}."
    )


# -- The page that compares the first method with the best method on one prompt, token by token.


def write_prompt_page(config: CompareConfig, results: Results, out: Path) -> Path | None:
    """Write a page on the predictions of the first and the best method for one prompt, and link it in the report.

    Returns:
        Path of the page. None if the results have no prompts, the first method is best, or a model is not saved.
    """
    from nextword.experiments.comparison.folder import ComparisonFolder
    from nextword.inference.inspection.trace_example import trace
    from nextword.inference.scoring.opened_model import open_model
    from nextword.results.records import write_atomically
    from nextword.results.report import leader, trace_page, write_report
    from nextword.results.report.comparison.page import INSIDE

    prompts = [example for run in results.runs for example in run.evaluation.examples]
    first, best = config.methods[0], leader(results)
    second = next((method for method in config.methods if method.title == best and method is not first), None)
    if not prompts or second is None:
        return None
    folder = ComparisonFolder(out)
    models = {method.title: folder.trained(method, config.seeds[0]) / "model" for method in (first, second)}
    if not all(model.is_dir() for model in models.values()):
        return None
    # the methods were trained to predict only the word after the prompt, so the page does not score the prompt
    prompt, word = prompts[0].prompt, f" {prompts[0].expected[-1]}"
    traces = [trace(open_model(model, name=name), prompt=prompt, text=word) for name, model in models.items()]
    page = out / INSIDE
    write_atomically(page, trace_page(*traces))
    write_report(results, folder.report)
    return page


# -- The results of the quickstart: a table with one row per method, and their meaning in two sentences.

COLUMNS = {"acc@2": "both words in the top 2", "acc@1": "first choice right", "nll": "nats per word"}
"""Metrics of the short table, with their headings."""
LEAD = "acc@2"
"""The metric with which the sentence below the table compares the methods."""


def short_table(results: Results) -> RenderableType:
    """The metrics ``COLUMNS`` of every method, a sentence on the best methods, and a note on seeds.

    Without runs, or if a run lacks one of the metrics (another task), ``results_table(results)`` is returned instead.
    """
    if not results.runs or not all(COLUMNS.keys() <= run.evaluation.metrics.keys() for run in results.runs):
        return results_table(results)
    rows = [
        (Text(method), *(_shown(_values(results, method, metric), metric) for metric in COLUMNS))
        for method in dict.fromkeys(run.method for run in results.runs)
    ]
    table = framed(None, [Column("method", no_wrap=True), *right(*COLUMNS.values())], rows, padding=(0, 1))
    worth = (
        f"Means of {len(results.seeds)} seeds, with the lowest and the highest."
        if len(results.seeds) > 1
        else "One seed is not enough: with another seed, softmax and mos change by ten points or more. For means: "
        "--seeds 3."
    )
    return Group(table, Text(_sentence(results)), Text(worth))


def _values(results: Results, method: str, metric: str) -> list[float]:
    return [run.evaluation.metrics[metric].value for run in results.runs if run.method == method]


def _shown(values: list[float], metric: str) -> str:
    def text(value: float) -> str:
        return f"{value:.2f}" if metric == "nll" else f"{100 * value:.0f} %"

    mean, low, high = text(fmean(values)), text(min(values)), text(max(values))
    return mean if low == high else f"{mean} ({low} to {high})"


def _sentence(results: Results) -> str:
    shares = {run.method: fmean(_values(results, run.method, LEAD)) for run in results.runs}
    (first, share), best = next(iter(shares.items())), max(shares.values())
    ahead = [method for method, value in shares.items() if value == best]
    if first in ahead:
        return (
            f"{first} ranks both words in the top 2 on {100 * share:.0f} % of the prompts; no other method does so "
            f"more "
            "often."
        )
    return (
        f"Both words are in the top 2 on {100 * best:.0f} % of the prompts with {listing(ahead)}, "
        f"and on {100 * share:.0f} % with {first}."
    )
