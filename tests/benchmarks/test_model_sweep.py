from __future__ import annotations

import dataclasses
import json
from functools import partial

import model_sweep
import pytest
import torch
from architectures import abilities, cells, tiny_model
from architectures.bare import bare_abilities
from architectures.names import architectures
from architectures.one_architecture import try_architecture
from architectures.page import page
from architectures.probes import probe_of
from architectures.processes import context, row_of
from architectures.shrunk import EXCEPTIONS, HEADS, HIDDEN, VOCABULARY, shrunk, with_exceptions

import nextword as nw

PLAIN, HYBRID, WITH_ENCODER = ("decoder-only", "gpt2"), ("decoder-only", "qwen3_next"), ("encoder-decoder", "t5")


@pytest.fixture(scope="module")
def plain():
    model = tiny_model.tiny_model(*PLAIN)
    probe = probe_of(model)
    return model, bare_abilities(model, probe), probe


# -- a configuration made small


def test_one_layer_of_each_kind_stays_and_what_belongs_to_layers_stays_with_them():
    small = shrunk(
        {
            "num_hidden_layers": 6,
            "layer_types": ["linear", "linear", "linear", "full", "linear", "full"],
            "widths": [8, 8, 8, 8, 8, 4096],
            "per_layer_config": {"03": {"num_attention_heads": 64}, "05": {"num_attention_heads": 2}},
        }
    )
    assert small["num_hidden_layers"] == 3
    assert small["layer_types"] == ["linear", "full", "full"]
    assert small["per_layer_config"] == {1: {"num_attention_heads": HEADS}, 2: {"num_attention_heads": 2}}


def test_sizes_fit_each_other_and_marks_are_in_the_vocabulary():
    small = shrunk(
        {
            "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "text_config": {"vocab_size": 151936, "image_token_id": 151655, "pad_token_id": None, "n_layers": 80},
            "id2label": {0: "LABEL_0"},
        }
    )  # fmt: skip
    assert small["hidden_size"] == HIDDEN == small["num_attention_heads"] * small["head_dim"]
    assert small["num_attention_heads"] % small["num_key_value_heads"] == 0
    inner = small["text_config"]
    assert (inner["vocab_size"], inner["n_layers"]) == (VOCABULARY, 2)
    assert {inner["image_token_id"], inner["pad_token_id"]} <= set(range(VOCABULARY))
    assert small["id2label"] == {0: "LABEL_0"}


def test_exceptions_are_of_known_architectures_and_say_why():
    assert with_exceptions({"a": {"b": 1}}, {"a.b": 2}) == {"a": {"b": 2}}
    assert set(EXCEPTIONS) <= {name for _, name in architectures()}
    assert all(own["why"] and set(own) <= {"why", "default", "set", "part"} for own in EXCEPTIONS.values())


def test_a_model_that_stays_large_is_not_built(monkeypatch):
    monkeypatch.setattr(tiny_model, "MOST_PARAMETERS", 1000)
    with pytest.raises(tiny_model.NotBuiltError, match="parameters after shrinking"):
        tiny_model.tiny_model(*PLAIN)


# -- whole architectures


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), [PLAIN, HYBRID, WITH_ENCODER])
def test_an_architecture_is_built_and_nothing_fails(kind, name):
    told = []
    try_architecture(kind, name, lambda row: told.append(json.loads(json.dumps(row))), ["softmax", "cache"])
    assert told[0]["not_built"].startswith("the process ended")
    row = told[-1]
    assert (row["not_built"], row["bare"]) == ("", {})
    assert row["heads"]["softmax"]["outcome"] == "works", row
    assert row["heads"]["cache"]["outcome"] in ("works", "refused"), row


def test_a_process_that_does_not_end_is_a_row():
    row = row_of(partial(try_architecture, heads=["softmax"]), *PLAIN, 0.0, context())
    assert row["not_built"].endswith("no end after 0 seconds")


# -- planted mistakes are found, each by the check that looks for it


def broken(monkeypatch, change):
    attach = nw.attach

    def attach_and_break(model, spec):
        ours = attach(model, spec)
        change(ours)
        return ours

    monkeypatch.setattr(cells.nw, "attach", attach_and_break)


def other_scores(ours):
    forward = ours.forward

    def changed(*args, **kwargs):
        out = forward(*args, **kwargs)
        out.logits = out.logits * 1.001
        return out

    ours.forward = changed


def other_with_a_cache(ours):
    generate = ours.generate

    def changed(*args, use_cache=True, num_beams=1, **kwargs):
        out = generate(*args, use_cache=use_cache, num_beams=num_beams, **kwargs)
        if use_cache:
            out.logits = tuple(scores * 1.1 for scores in out.logits)
        return out

    ours.generate = changed


def blind_to_beams(ours):
    generate = ours.generate

    def changed(*args, use_cache=True, num_beams=1, **kwargs):
        return generate(*args, use_cache=use_cache, num_beams=num_beams if use_cache else 1, **kwargs)

    ours.generate = changed


def infinite_loss(ours):
    objective = ours.objective.forward

    def changed(*args, **kwargs):
        loss = objective(*args, **kwargs)
        return type(loss)(loss.total * torch.inf, loss.tokens, loss.parts)

    ours.objective.forward = changed


def forgetful(ours):
    save = ours.save_pretrained

    def changed(folder):
        with torch.no_grad():
            for parameter in ours.parameters():
                parameter.mul_(1.5)
        save(folder)
        with torch.no_grad():
            for parameter in ours.parameters():
                parameter.div_(1.5)

    ours.save_pretrained = changed


def meddling(ours):
    ours.backbone.config.use_cache = not ours.backbone.config.use_cache


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "where"),
    [
        (other_scores, "bit for bit"),
        (other_with_a_cache, "cached = uncached"),
        (blind_to_beams, "beams"),
        (infinite_loss, "training step"),
        (forgetful, "save and load"),
        (meddling, "configuration untouched"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_planted_mistake_is_found(plain, monkeypatch, change, where):
    model, bare, probe = plain
    model = tiny_model.tiny_model(*PLAIN)
    broken(monkeypatch, change)
    found = cells.cell(model, "softmax", bare, probe)
    assert (found.outcome, found.where) == ("fails", where), found


@pytest.mark.slow
def test_what_double_precision_does_not_show_is_rounding(plain, monkeypatch):
    model, bare, probe = plain
    check = nw.check

    def rounded(ours, lengths):
        report = check(ours, lengths=lengths)
        worst = 1.0 if ours.dtype in wrong_in else 0.0
        return dataclasses.replace(report, rows=(dataclasses.replace(report.rows[0], worst=worst), *report.rows[1:]))

    monkeypatch.setattr(cells.nw, "check", rounded)
    wrong_in = (torch.float32,)
    assert cells.cell(model, "softmax", bare, probe).outcome == "works"
    wrong_in = (torch.float32, torch.float64)
    assert cells.cell(model, "softmax", bare, probe).where == "nw.check"


@pytest.mark.slow
def test_what_the_bare_model_cannot_do_is_not_asked_of_a_head(plain, monkeypatch):
    model, _, probe = plain
    monkeypatch.setitem(abilities.ABILITIES, "beams", lambda *_: 1.0)
    bare = bare_abilities(model, probe)
    assert bare.unable == {"beams": "deviates by 1"}
    assert cells.cell(model, "softmax", bare, probe).outcome == "works"


def test_a_refusal_is_told_apart_from_a_failure(plain, monkeypatch):
    model, bare, probe = plain
    monkeypatch.setitem(cells.HEADS, "softmax", lambda: "softmax+mi")
    found = cells.cell(model, "softmax", bare, probe)
    assert (found.outcome, found.where) == ("refused", "attach")
    assert "must be at most" in found.reason


# -- results, record and page


def row(name, outcome="works", where="", reason="", **changes):
    head = {"outcome": outcome, "where": where, "reason": reason}
    made = {"kind": "decoder-only", "name": name, "model": f"{name}ForCausalLM", "not_built": "", "bare": {}}
    return made | {"heads": {"softmax": head}} | changes


def test_a_killed_run_goes_on_and_the_newest_line_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert model_sweep.newest(path) == {}
    rows = [row("gpt2", "fails", "beams", "x"), row("llama"), row("gpt2")]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows) + '{"kind": "decoder-only", "na', encoding="utf-8")
    found = model_sweep.newest(path)
    assert [name for _, name in found] == ["gpt2", "llama"]
    assert found["decoder-only", "gpt2"]["heads"]["softmax"]["outcome"] == "works"


def test_the_page_counts_and_groups_by_reason():
    rows = [
        row("gpt2"),
        row("mamba", "refused", "attach", "ValueError: mambaForCausalLM keeps no KV cache"),
        row("rwkv", "refused", "attach", "ValueError: rwkvForCausalLM keeps no KV cache"),
        row("reformer", "fails", "beams", "UnableError: deviates by 0.25, 1e-05 allowed"),
        row("xlnet", bare={"beams": "deviates by 0.5"}),
        row("blt", not_built="RuntimeError: no"),
    ]
    versions = {"transformers": "5", "torch": "2", "nextword": "1"}
    counted = {"all": {"decoder-only": 7}, "missing": ["llama (decoder-only)"]}
    text = page(versions | counted | {"heads": ["softmax"], "rows": rows})
    assert "| decoder-only: works | 5 of 7 | 2 |" in text
    assert "## Not run yet\n\nllama (decoder-only)\n" in text
    assert "| decoder-only: refused |  | 2 |" in text
    assert "| decoder-only: fails |  | 1 |" in text
    assert "- ValueError: MODEL keeps no KV cache — 2: mamba, rwkv (`softmax`)" in text
    assert "- beams: UnableError: deviates by #, # allowed — 1: reformer (`softmax`)" in text
    assert "- beams: deviates by # — 1: xlnet" in text
    assert "- RuntimeError: no — 1: blt" in text


def test_the_committed_page_is_that_of_the_committed_record():
    model_sweep.main(["--check"])


def test_the_record_is_written_as_it_is_read(tmp_path):
    record = model_sweep.record_of({("decoder-only", "gpt2"): row("gpt2"), ("decoder-only", "gone"): row("gone")})
    model_sweep.write_record(record, tmp_path / "models.json")
    assert json.loads((tmp_path / "models.json").read_text()) == record
    assert [one["name"] for one in record["rows"]] == ["gpt2"]
