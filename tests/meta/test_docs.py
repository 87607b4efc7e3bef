"""What the documents say holds: links lead somewhere, examples run, commands and specs exist."""

from __future__ import annotations

import contextlib
import importlib
import re
import shlex
import sys
import types
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import typer

import nextword as nw
import nextword.evaluation.judges
from nextword.cli import app
from nextword.evaluation import EvaluateConfig
from nextword.experiments import tasks
from nextword.experiments.comparison.method import Method
from nextword.heads.input_states import MultiInputConfig
from nextword.heads.partitions import PartitionConfig
from nextword.settings.registry import UnknownNameError
from nextword.settings.specs import ModifierEntry
from tests.helpers.counted import counts_file
from tests.helpers.doc_pages import FENCE, ROOT, blocks, formula_faults, name_of, slug, survey_faults

pytestmark = pytest.mark.docs

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
KINDS = ("heads", "objectives", "conditioners")
PARTS = sorted(page for kind in KINDS for page in (ROOT / "docs" / kind).glob("*.md") if page.stem != "index")

SECTIONS = ("Formula", "Settings", "When not to use it", "Cost", "Differences from the published code", "Source")
TEMPLATE = {
    "heads": SECTIONS,
    "conditioners": SECTIONS,
    "objectives": (
        *("Idea", "Formula", "What it teaches", "When to use it", "When not to", "Cost"),
        *("Where it differs from the published code", "Example", "Source"),
    ),
}

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
REFERENCE = re.compile(r"^\[\w+\]: (\S+)$", re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def broken_links(text: str, folder: Path) -> Iterator[str]:
    text_alone = FENCE.sub("", text)
    for target in [*LINK.findall(text_alone), *REFERENCE.findall(text_alone)]:
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        path = folder / name if name else None
        if path is not None and not path.exists():
            yield target
            continue
        if anchor:
            linked = FENCE.sub("", path.read_text(encoding="utf-8") if path is not None else text)
            if anchor not in {slug(heading) for heading in HEADING.findall(linked)}:
                yield target


def command_lines(text: str) -> Iterator[str]:
    """Every `nextword ...` line of a console block, and every `nextword ...` in backticks."""
    for body in blocks(text, "console"):
        for line in body.replace("\\\n", " ").splitlines():
            command = re.match(r"(?:\$ )?(?:.*\| |.*torchrun .*-m )?(nextword .*)", line)
            if command:
                yield command[1].split("  #")[0].split(" > ")[0]
    yield from re.findall(r"`(nextword [^`]+)`", FENCE.sub("", text))


command_line = cache(partial(typer.main.get_command, app))


def command_faults(line: str) -> Iterator[str]:
    words = shlex.split(line.replace("...", ""))[1:]
    if not words or words[0].startswith("-"):
        return
    command: Any = command_line()
    for name in words[:2]:
        if hasattr(command, "commands"):
            command = command.commands.get(name)
            if command is None:
                return (yield f"{line}: no command '{name}'")
            command = getattr(command, "loaded", lambda found=command: found)()
    options = {option for parameter in command.params for option in parameter.opts}
    for position, word in enumerate(words):
        if word.startswith("--") and word.split("=")[0] not in options:
            yield f"{line}: {words[0]} has no option {word}"
        if word == "--set" and words[0] == "survey":
            yield from survey_faults(line, words[2], words[position + 1])
        elif word == "--metrics" or (word == "--set" and words[0] == "evaluate"):
            given = words[position + 1]
            for one in given.split(",") if word == "--metrics" and ":" not in given else [given]:
                yield from metric_faults(line, word, one)
        if word == "--head":
            try:
                method = Method.model_validate(words[position + 1])
                nw.heads.parse_head(method.head)
                nw.objectives.parse_objective(method.objective)
            except ValueError as fault:
                yield f"{line}: {fault}"


def metric_faults(line: str, option: str, given: str) -> Iterator[str]:
    """Of a metric spec, of ``metric.setting=value`` or of a setting of the evaluation."""
    name, _, setting = given.partition("=")[0].partition(".") if option == "--set" else (given, "", "")
    if option == "--set" and not setting:
        if name not in EvaluateConfig.model_fields:
            yield f"{line}: an evaluation has no setting {name}"
        return
    try:
        settings = type(nw.metrics.parse_metric(name)).model_fields if name != "all" else {}
    except ValueError as fault:
        yield f"{line}: {fault}"
        return
    if setting and setting not in settings:
        yield f"{line}: {name} has no setting {setting}"


@pytest.fixture
def beside_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with the counts file that pages speak of."""
    monkeypatch.chdir(Path(counts_file()).parent)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert not list(broken_links(page.read_text(encoding="utf-8"), page.parent))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page: Path) -> None:
    assert not [fault for line in command_lines(page.read_text(encoding="utf-8")) for fault in command_faults(line)]


@pytest.mark.parametrize("page", PARTS, ids=name_of)
def test_part_pages_follow_the_template(page: Path) -> None:
    sections = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [*TEMPLATE[page.parent.name]]


def test_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert not [line for line in lines if len(line) > 100 and not line.startswith("|")]


def test_encoder_decoder_example_runs(monkeypatch: pytest.MonkeyPatch, ids: torch.Tensor) -> None:
    text = (ROOT / "docs" / "generate.md").read_text(encoding="utf-8")
    (example,) = (body for body in blocks(text, "python") if "AutoModelForSeq2SeqLM" in body)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 50}
    special = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    torch.manual_seed(0)
    backbone = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **special)).eval()
    encoded = transformers.BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    tokenizer = lambda text, return_tensors: encoded  # noqa: E731
    monkeypatch.setattr(transformers.AutoModelForSeq2SeqLM, "from_pretrained", lambda name: backbone)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda name: tokenizer)
    names: dict[str, Any] = {}
    exec(example, names)
    assert torch.isfinite(names["loss"])
    assert names["written"].shape[0] == 1
    decoder = names["model"].prepare_decoder_input_ids_from_labels(names["labels"])
    assert len(names["model"].distribution(**names["source"], decoder_input_ids=decoder).log_probs()) == ids.numel()


@pytest.mark.usefixtures("beside_counts")
def test_heads_of_the_settings_sections_are_built(backbone: transformers.GPT2LMHeadModel) -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "heads").glob("*.md")]
    calls = [call for text in pages for call in re.findall(r"`(nw\.attach\(backbone, \{.*?\}\))`", text)]
    assert len(calls) >= 5
    for call in calls:
        assert eval(call, {"nw": nw, "backbone": backbone}).next_word_head is not None


def test_dir_lists_the_public_names() -> None:
    assert dir(nw) == sorted([*nw.__all__, "__version__"])
    assert all(getattr(nw, name) is not None for name in dir(nw))


def listed_modifiers() -> list[tuple[str, ModifierEntry]]:
    """Every modifier that may follow a + in a head spec, with the field it fills."""
    modifiers = nw.heads.modifiers.by_field()
    return [(field, entry) for field, modifier in modifiers.items() for entry in modifier.entries]


def test_list_command_names_every_page_and_no_other() -> None:
    for kind in KINDS:
        rooms = {"heads": nw.heads, "objectives": nw.objectives, "conditioners": nw.conditioning}
        registry: Any = rooms[kind].registry
        listed = set(registry.names())
        if kind == "heads":
            listed |= {entry.page for _, entry in listed_modifiers()}
        assert listed | {"index"} == {path.stem for path in (ROOT / "docs" / kind).glob("*.md")}


@pytest.mark.parametrize(("field", "entry"), listed_modifiers(), ids=lambda given: getattr(given, "name", given))
def test_examples_of_listed_modifiers_use_them(field: str, entry: ModifierEntry) -> None:
    config = nw.heads.parse_head(entry.example)
    assert getattr(config, field)
    assert nw.heads.head_spec(config) == entry.example
    assert entry.name[:2] in entry.example


def settings_in_tables(kind: str, page: str) -> set[str]:
    """What stands in backticks in the first cells of the tables of settings of a part's page."""
    text = (ROOT / "docs" / kind / f"{page}.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| setting \| default \| meaning \|\n(?:\|.*\n)+", text, re.MULTILINE)
    first_cells = " ".join(re.findall(r"^\| ([^|]+) \|", "".join(tables), re.MULTILINE))
    return set(re.findall(r"`(\w+)`", first_cells))


SETTINGS = [
    *((name, set(nw.heads.registry.get(name).Config.model_fields)) for name in nw.heads.registry.names()),
    ("cpr", set(PartitionConfig.model_fields)),
    ("mi", set(MultiInputConfig.model_fields)),
]


@pytest.mark.parametrize(("page", "fields"), SETTINGS, ids=lambda given: given if isinstance(given, str) else "")
def test_every_setting_of_heads_is_explained(page: str, fields: set[str]) -> None:
    explained = settings_in_tables("heads", page)
    with_pages = {"mi", "partition"}  # parts with a page of their own; a table may name them or not
    assert fields - {"head"} - with_pages <= explained
    assert explained <= fields, "a setting that the head does not have"


@pytest.mark.parametrize("name", nw.conditioning.registry.names())
def test_every_setting_of_conditioners_is_explained(name: str) -> None:
    fields = set(nw.conditioning.registry.get(name).Config.model_fields)
    assert settings_in_tables("conditioners", name) == fields - {"conditioner"}


INDEXES = [ROOT / "docs" / kind / "index.md" for kind in KINDS]


@pytest.mark.usefixtures("beside_counts")
@pytest.mark.parametrize("page", [*PARTS, *INDEXES], ids=name_of)
def test_page_examples_run(
    page: Path,
    backbone: transformers.GPT2LMHeadModel,
    ids: torch.Tensor,
    encoder: transformers.BertModel,
    auxiliary: dict[str, torch.Tensor],
) -> None:
    examples = blocks(page.read_text(encoding="utf-8"), "python")
    assert examples
    given = {
        "nw": nw,
        "torch": torch,
        "backbone": backbone,
        "ids": ids,
        "labels": ids,
        "encoder": encoder,
        "auxiliary": auxiliary,
    }
    for example in examples:
        exec(example, dict(given))


def test_worked_head_of_contributing_is_a_head(
    backbone: transformers.GPT2LMHeadModel, ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), "python")[0]
    registry = nw.heads.registry
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    module = types.ModuleType("nextword.heads.sharp")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, module.__dict__)

    logits = backbone(ids).logits[0]
    model = nw.attach(backbone, "sharp+mi:1x2")
    torch.testing.assert_close(model.distribution(ids).log_probs(), logits.log_softmax(-1))  # starts unchanged
    model.next_word_head.temperature.bias.data.fill_(20.0)
    torch.testing.assert_close(model.distribution(ids).log_probs(), (2 * logits).log_softmax(-1))
    model(input_ids=ids, labels=ids).loss.backward()
    assert model.next_word_head.temperature.weight.grad is not None
    nw.check(model, lengths=[6]).raise_if_failed()


def test_classes_of_the_papers_exist() -> None:
    text = (ROOT / "docs" / "records" / "paper-names.md").read_text(encoding="utf-8")
    classes = re.findall(r"`([a-z]+(?:\.[a-z_]+)+)\.([A-Z]\w+)`", text)
    assert len(classes) > 20
    assert not [name for module, name in classes if not hasattr(importlib.import_module(f"nextword.{module}"), name)]


def test_sizes_of_the_papers_rows() -> None:
    """The rows of Softmax-CPR's table with a size: that of the spec's head on GPT-2 small."""
    text = (ROOT / "docs" / "records" / "paper-names.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `([^`]+)` \| ([\d.]+) M \|$", text, re.MULTILINE)
    assert len(rows) == 15
    backbone = 124_439_808
    for spec, millions in rows:
        config = nw.heads.parse_head(spec)
        with torch.device("meta"):
            head = nw.heads.registry.get(config.head)(config, nw.heads.Dimensions(768, 768, 12, 50257))
        size = backbone + sum(parameter.numel() for parameter in head.parameters())
        assert f"{size / 1e6:.1f}" == millions, spec


def test_planted_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A heading: here\n")
    right = "[a](there.md) [b](there.md#a-heading-here) [c](https://example.org/x)"
    wrong = "![d](gone.svg) [e](there.md#gone) [f](#gone)"
    assert not list(broken_links(right, tmp_path))
    assert list(broken_links(wrong, tmp_path)) == ["gone.svg", "there.md#gone", "#gone"]


@pytest.mark.parametrize(
    "words",
    [
        "comparre",
        "compare --haed softmax",
        "compare --head sotfmax",
        "compare --head cache/mlee",
        "evaluate x --metrics distinkt",
        "evaluate x --set distinct.m=3",
        "evaluate x --set distinkt.n=3",
        "evaluate x --set hunam=false",
        "survey make pairwise x --set nar=3",
        "survey make pairwise x --itmes 3",
        "ngram sort x",
        "ngram build x y --weights z",
    ],
)
def test_planted_wrong_command_is_found(words: str) -> None:
    assert len(list(command_faults(f"nextword {words}"))) == 1


def test_planted_commands_are_read() -> None:
    text = (
        "see `nextword list heads`\n\n```console\n$ nextword compare --out x  # why\n$ make test\nmake lint\n"
        "nextword score m x > y\ntorchrun --nproc-per-node 4 -m nextword train --fsdp\n```\n"
    )
    assert list(command_lines(text)) == [
        "nextword compare --out x",
        "nextword score m x",
        "nextword train --fsdp",
        "nextword list heads",
    ]


HEAD_IN_PYTHON = re.compile(r'nw\.(?:attach|load)\((?:[^(),"]|"[^"]*"|\([^()]*\))+, "([^"]+)"')


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_heads_in_python_are_heads(page: Path) -> None:
    for spec in HEAD_IN_PYTHON.findall(page.read_text(encoding="utf-8")):
        with contextlib.suppress(UnknownNameError):  # of the pages about heads of one's own
            nw.heads.parse_head(spec)


def test_planted_heads_in_python_are_read() -> None:
    text = 'nw.attach(make("x"), "mos:3") and nw.load("my", "softmax+cpr", dtype=d) and nw.load("mine")'
    assert HEAD_IN_PYTHON.findall(text) == ["mos:3", "softmax+cpr"]


@pytest.mark.parametrize("name", tasks.registry.names())
def test_task_pages_name_every_setting(name: str) -> None:
    page = (ROOT / "docs" / "tasks" / f"{name}.md").read_text()

    def keys(model: type, prefix: str) -> list[str]:
        nested = {key: field.annotation for key, field in model.model_fields.items()}
        return [
            found
            for key, kind in nested.items()
            for found in (keys(kind, f"{prefix}{key}.") if hasattr(kind, "model_fields") else [prefix + key])
        ]

    assert [key for key in keys(tasks.registry.get(name).Config, "task.") if f"| `{key}` |" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_formulas_show_on_github(page: Path) -> None:
    assert not list(formula_faults(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "formula", ["$a\\,b$", "$\\{a$", "$$\na \\\\ b\n$$", "$\\mathrm{f}_v$", "$|a|$", "$a^*$", "$s <t$", "$a\nb$"]
)
def test_planted_formula_that_github_spoils_is_found(formula: str) -> None:
    assert len(list(formula_faults(f"so\n\n{formula}\n"))) == 1


def test_planted_formulas_are_read() -> None:
    right = "so $x_t \\cdot w_{tv}$, `$HOME`\n\n$$\n\\sum_{s < t} a \\\\\nb\n$$\n\n```sh\n$ ls\n```\n"
    assert not list(formula_faults(right))
