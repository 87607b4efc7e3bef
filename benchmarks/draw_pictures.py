"""Draws the pictures of README and docs from the records, in a light and a dark version, into ``docs/images``.

    python benchmarks/draw_pictures.py
    python benchmarks/draw_pictures.py --model models/smollm2-135m --held valid.txt    # and takes pictures of pages

With ``--model``, the folder of a real model, it also takes pictures of the pages of ``inspect``, ``serve``, ``check``
and ``evaluate`` with a Chromium on PATH (a quarter of an hour on one core).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import claims_page
from options import DATA
from pictures import choice, claims, performance, perplexity, schematics
from pictures.style import Picture, write

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def pictures() -> dict[str, Picture]:
    """Every drawing by its path below ``docs/images``, without ending."""
    made: dict[str, Callable[[], Picture]] = perplexity.PICTURES | schematics.PICTURES | choice.PICTURES
    found = {name: draw() for name, draw in made.items()}
    found |= claims.pictures(claims_page.records_in(claims_page.DOCS / "records" / "papers"))
    return found | performance.pictures(DATA)


def main(argv: Sequence[str] | None = None) -> None:
    """Draws, and with a model takes pictures of pages."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--images", type=Path, default=IMAGES, help="folder of the pictures")
    options.add_argument("--model", type=Path, help="folder of a decoder-only model; also take pictures of its pages")
    options.add_argument("--held", type=Path, help="text on which the model's cache is calibrated")
    given = options.parse_args(argv)
    for name, picture in pictures().items():
        for path in write(name, picture, given.images):
            print(path)
    if given.model is not None:
        if given.held is None:
            options.error("--held must be given with --model")
        from pictures import screens

        screens.take(given.model, given.held, given.images)


if __name__ == "__main__":
    main()
