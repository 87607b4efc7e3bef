"""``nextword survey``: human evaluation, from samples files to a table of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import fields_of, option_groups, systems_of
from nextword.settings.config import Settings

app = typer.Typer(help="Human evaluation of texts: make a survey, and analyse its answers.", no_args_is_help=True)


class RecipeOptions(Settings):
    """Options of ``nextword survey make``."""

    items: int | None = None
    """Number of prompts whose texts are judged."""
    judges: int | None = None
    """Number of judges per item."""
    seed: int | None = None
    """Seed of all random choices."""
    recipe: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """TOML file with settings of the survey: consent text, instructions, checks and all others."""
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")] = None
    """Setting that overrides the recipe, for instance checks=3."""

    def content(self) -> dict[str, object]:
        """Mapping from setting name to value: the settings of the recipe file, overridden by the other options."""
        from nextword.settings.overrides import overridden, parsed

        content = {} if self.recipe is None else parsed(self.recipe.read_bytes(), str(self.recipe))
        given = {"items": self.items, "judges": self.judges, "seed": self.seed}
        content |= {name: value for name, value in given.items() if value is not None}
        return overridden(content, self.settings or [])


@app.command()
@plain_errors
@option_groups
def make(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Type of survey: pairwise, faithfulness or rating.")],
    files: Annotated[
        list[str], typer.Argument(metavar="[NAME=]FILE...", help="Samples files of the systems, one per system.")
    ],
    asked: RecipeOptions,
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=KEY", help="Map a field to its name in the files, for instance text=prediction."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the survey.")] = Path("survey"),
) -> None:
    """Make forms for judges: a page that needs no network, and files for Mechanical Turk, Label Studio and Prolific.

    Give judges only the files in for-judges/. Keep key.json secret, because it tells which system wrote which text.

    nextword survey make pairwise trime.jsonl histalign.jsonl --items 100 --judges 3 --out survey

    nextword survey make rating gpt2=a.jsonl bergpt=b.jsonl --recipe mine.toml
    """
    from nextword.cli.parts.run_and_show import quiet_libraries, this_command
    from nextword.evaluation.survey import make_survey
    from nextword.evaluation.survey.outputs import KEY, SURVEY, write_survey
    from nextword.runtime.corpora.output_files import expect_inputs_kept

    quiet_libraries()
    systems = systems_of(files)
    several = [name for name, paths in systems.items() if len(paths) > 1]
    if several:
        raise ValueError(
            f"{several[0]}: must have one samples file ({len(systems[several[0]])} given); choose one of them"
        )
    expect_inputs_kept({"--out": [out / SURVEY, out / KEY]}, [*(paths[0] for paths in systems.values()), asked.recipe])
    files_of = {name: paths[0] for name, paths in systems.items()}
    made = make_survey(kind, files_of, asked.content(), fields_of(field, "text=prediction"), this_command())
    written = write_survey(made, out)
    items = len(made.survey.items) - len(made.key.checks)
    typer.echo(f"{items} items, {len(made.survey.forms)} forms, {len(made.key.checks)} checks")
    for note in made.notes:
        typer.echo(note)
    typer.echo(f"For judges: {written[2].parent.resolve()}")
    typer.echo(f"Not for judges: {written[1].resolve()}")


@app.command()
@plain_errors
def results(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the survey.")],
    answers: Annotated[
        list[Path],
        typer.Argument(
            metavar="ANSWERS...",
            help="Answer files: JSON saved by the survey page, MTurk's CSV or Label Studio's JSON.",
        ),
    ],
    automatic: Annotated[
        Path | None, typer.Option(metavar="FILE", help="results.json of 'nextword evaluate' on the same systems.")
    ] = None,
    resamples: Annotated[int, typer.Option(help="Number of bootstrap resamples.")] = 2000,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json and report.html; by default FOLDER/results.")
    ] = None,
) -> None:
    """Analyse the answers: values with intervals, tests, the judges' agreement, and the answers that were excluded.

    nextword survey results survey answers/*.json --automatic evaluation/results.json
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import print_line, this_command
    from nextword.evaluation.survey import survey_results
    from nextword.evaluation.survey.outputs import KEY, SURVEY
    from nextword.results.report import survey_tables, write_survey_report
    from nextword.runtime.corpora.output_files import expect_inputs_kept

    to = out or folder / "results"
    expect_inputs_kept(
        {"--out": [to / "results.json", to / "report.html"]}, [*answers, automatic, folder / SURVEY, folder / KEY]
    )
    found = survey_results(folder, answers, automatic, resamples, this_command())
    found.save(to / "results.json")
    write_survey_report(found, to / "report.html")
    console = Console()
    for table in survey_tables(found):
        console.print(table)
    print_line(console, f"Report: {(to / 'report.html').resolve()}")
