"""The pictures in docs/images are what is drawn, light and dark, and each is shown somewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import draw_pictures
import pytest
from pictures import choice, schematics, screens
from pictures.records import Measured, measured
from pictures.style import Picture, write

from nextword.results.report.template import INK, THEMES

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
DRAWN = pytest.mark.figures
PARTITIONS = {"c", "e", "p", "r"}
"""Parts of cpr, which are in its schematic."""


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return draw_pictures.pictures()


def words(path: Path) -> list[str]:
    """The texts of a picture: they are text and not outlines."""
    return ["".join(one.itertext()).strip() for one in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@DRAWN
def test_committed_pictures_are_what_is_drawn(pictures: dict[str, Picture], tmp_path: Path) -> None:
    for name, picture in pictures.items():
        for path in write(name, picture, tmp_path):
            committed = IMAGES / path.relative_to(tmp_path)
            assert committed.exists(), f"{committed}: run make pictures"
            assert committed.read_text("utf-8") == path.read_text("utf-8"), f"{committed} is old: run make pictures"


@DRAWN
def test_every_text_and_line_of_a_dark_picture_is_light(pictures: dict[str, Picture], tmp_path: Path) -> None:
    light, dark = write("which-head", pictures["which-head"], tmp_path)
    assert words(light) == words(dark)
    assert "Can you train the model?" in words(dark)
    assert INK in light.read_text("utf-8")
    for colour, other in THEMES.values():
        if colour != other and colour in light.read_text("utf-8"):
            assert colour not in dark.read_text("utf-8")
            assert other in dark.read_text("utf-8")


@DRAWN
def test_a_colour_without_a_dark_one_is_refused(tmp_path: Path) -> None:
    picture = Picture(lambda figure: figure.text(0, 0, "x", color="#123456"), 1)
    with pytest.raises(ValueError, match="#123456"):
        write("strange", picture, tmp_path)


def test_cells_of_records_are_numbers() -> None:
    assert measured("**80.5** <sub>77.6–83.4</sub>") == Measured(80.5, 77.6, 83.4)
    assert measured("39,609") == Measured(39609, 39609, 39609)
    assert measured("−0.054 <sub>−0.064–−0.045</sub>") == Measured(-0.054, -0.064, -0.045)
    with pytest.raises(ValueError, match="no number"):
        measured("fast")


def test_every_head_with_a_mass_of_its_own_has_a_schematic() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "heads").glob("*.md")}
    assert {name.partition("/")[2] for name in schematics.PICTURES} == pages - PARTITIONS - {"index"}


def test_the_tree_names_heads_that_have_a_page() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "heads").glob("*.md")}
    for _, _, heads in choice.TREE:
        for part in re.findall(r"[a-z]+\d?", heads):
            assert part in pages or set(part) <= PARTITIONS, part


def test_pictures_of_the_site_follow_its_switch() -> None:
    spec = importlib.util.spec_from_file_location("themes", ROOT / "website" / "themes.py")
    assert spec is not None
    assert spec.loader is not None
    themes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(themes)
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        made = themes.switched(text)
        assert "<picture>" not in made, f"{page}: must be written as in website/themes.py"
        for found in themes.PICTURE.finditer(text):
            assert (page.parent / found["light"]).exists()
            assert (page.parent / found["dark"]).exists()
            assert f"![{found['alt']}]({found['light']}#only-light)" in made


def test_every_image_is_shown_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    shown = {path.replace("../", "") for path in re.findall(r"images/[\w/-]+\.(?:svg|png)", text)}
    there = {
        path.relative_to(IMAGES.parent).as_posix() for path in IMAGES.rglob("*") if path.suffix in (".svg", ".png")
    }
    assert there <= shown


def test_prompts_are_openings_of_paragraphs_and_references_the_rest() -> None:
    words = [f"w{number}" for number in range(100)]
    text = "\n".join(["= Title =", " ".join(words), "<unk> " + " ".join(words)])
    (prompt,) = map(json.loads, screens._prompts(text))
    assert prompt["prompt"].split() == words[: screens._BEGIN]
    assert prompt["references"][0].split() == words[screens._BEGIN : screens._BEGIN + screens._WRITTEN]
