"""Options of all speed benchmarks."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rows import columns

import nextword as nw

DATA = Path(__file__).parent / "data"
APART = Path(__file__).parents[1] / "runs" / "bench"


def at_least(least: int) -> Any:
    """The type of a number that may not be less."""

    def number(text: str) -> int:
        if (found := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{found} is too few, at least {least} is needed")
        return found

    number.__name__ = "number"  # what argparse calls it in its messages
    return number


def method(text: str) -> str:
    """The type of a head, or of head/objective: nothing is built before both are known to exist."""
    head, _, objective = text.partition("/")
    try:
        nw.heads.parse_head(head)
        nw.objectives.parse_objective(objective or "mle")
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from None
    return text


def folder(text: str) -> str:
    """The type of a saved model: a folder, for nothing is downloaded here."""
    if not (Path(text) / "config.json").is_file():
        raise argparse.ArgumentTypeError(f"{text}: no folder with a config.json, as save_pretrained writes it")
    return text


def parser(about: str | None, name: str, rounds: int | None = 7) -> argparse.ArgumentParser:
    """A parser with device, dtype, where rows go, and rounds, where a benchmark has any."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if rounds is not None:
        text = "rounds of taking turns, after one to warm up (default: %(default)s)"
        made.add_argument("--rounds", type=at_least(1), default=rounds, help=text)
    made.add_argument("--device", default="cpu", help="cpu or cuda")
    made.add_argument(
        "--dtype", default="float32", choices=["float32", "bfloat16"], help="type of weights and activations"
    )
    made.add_argument(
        "--quick", action="store_true", help="toy sizes and one round: tests that the benchmark runs, not its speed"
    )
    made.add_argument("--out", type=Path, help=f"table to append rows to (default: benchmarks/data/{name}.csv)")
    made.set_defaults(table=name, model=None)
    return made


def own_model(options: argparse.ArgumentParser) -> None:
    """Adds ``--model``."""
    text = "folder of your own model, in place of random weights; rows go to runs/bench unless --out is given"
    options.add_argument("--model", type=folder, help=text)


def settled(options: argparse.ArgumentParser, argv: Sequence[str] | None, **toy: Any) -> argparse.Namespace:
    """What was asked for; stops before anything is measured in vain.

    Args:
        options: The parser.
        argv: The command line.
        toy: What ``--quick`` makes of options that the command line leaves open. Its rows, as those of a model of
            somebody's own, go to a table apart.
    """
    given = options.parse_args(argv)
    if given.quick:
        options.set_defaults(rounds=1, **toy)
        given = options.parse_args(argv)
        print("toy sizes and one round: this shows that everything runs, and no ratio below means anything")
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(f"--device {given.device}: this machine has no such device")
    usual = DATA / f"{given.table}.csv"
    if given.out is None:
        given.out = APART / usual.name if given.quick or given.model else usual
    _check_table(given.out, usual)
    return given


def _check_table(out: Path, usual: Path) -> None:
    """Stops where rows cannot be appended: after the measurement it would be too late."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.open("a", encoding="utf-8").close()
        found, wanted = columns(out), columns(usual)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        sys.exit(f"--out {out}: {error}")
    if found and wanted and found != wanted:
        sys.exit(f"--out {out}: its columns are not those of {usual.name}; name another file")
