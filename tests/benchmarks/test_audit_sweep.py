from __future__ import annotations

import json
import re

import audit_sweep
from architectures import audited
from architectures.audit_page import DEFECTS, audit_page, reason_of, shown, unexplained
from architectures.names import architectures
from architectures.tiny_model import tiny_model

import nextword as nw
from nextword.checking.property import FAULTS

PLAIN = ("decoder-only", "gpt2")


def told_of(kind, name):
    told = []
    audited.audit_architecture(kind, name, lambda row: told.append(json.loads(json.dumps(row))))
    return told[-1]


def test_a_right_architecture_has_no_fault():
    row = told_of(*PLAIN)
    assert (row["faults"], row["raised"], unexplained(row)) == ({}, {}, [])
    assert row["asked"] > 10
    assert re.match(r"gpt2 \(decoder-only\), \S+ s, \d+ rows$", shown(row))


def test_a_planted_fault_is_a_false_alarm_until_there_is_a_reason(monkeypatch):
    build = audited.built

    def ahead(*args):
        model, probe, row = build(*args)
        forward = model.forward

        def looking_ahead(*args, **inputs):
            found = forward(*args, **inputs)
            found.logits = found.logits + found.logits.mean(1, keepdim=True)
            return found

        model.forward = looking_ahead
        return model, probe, row

    monkeypatch.setattr(audited, "built", ahead)
    row = told_of(*PLAIN)
    assert "future" in unexplained(row)
    assert "UNEXPLAINED future" in shown(row)
    monkeypatch.setitem(DEFECTS, "planted", {"why": "it looks", "faults": ["future"], "models": ["gpt2"]})
    assert reason_of(row, "future") == "it looks"
    assert "future" not in unexplained(row)


def test_an_audit_that_raises_is_a_false_alarm(monkeypatch):
    def raising(*args, **settings):
        raise RuntimeError("no")

    monkeypatch.setattr(nw, "check", raising)
    row = told_of(*PLAIN)
    assert unexplained(row) == ["the audit"]
    assert "UNEXPLAINED, the audit raised: RuntimeError: no" in shown(row)


def test_reasons_are_of_known_faults_and_architectures():
    names = {name for _, name in architectures()}
    assert all(set(one) == {"why", "faults", "models"} and one["why"] for one in DEFECTS.values())
    assert {model for one in DEFECTS.values() for model in one["models"]} <= names
    rows = {row.name for row in nw.check(tiny_model(*PLAIN)).rows}
    assert {fault for one in DEFECTS.values() for fault in one["faults"]} <= {*FAULTS, *rows}


def test_the_page_is_that_of_the_record():
    record = json.loads(audit_sweep.RECORD.read_text(encoding="utf-8"))
    assert audit_sweep.PAGE.read_text(encoding="utf-8") == audit_page(record)


def test_at_least_sixty_architectures_are_audited_and_every_fault_has_its_reason():
    rows = [row for row in json.loads(audit_sweep.RECORD.read_text(encoding="utf-8"))["rows"] if "faults" in row]
    assert len(rows) >= 60
    assert [(row["name"], unexplained(row)) for row in rows if unexplained(row)] == []
