"""A full disk is said in one line, whichever library meets it."""

from __future__ import annotations

import errno

import pytest
import torch
from safetensors.torch import save_file

from nextword.results.records import DiskFullError, disk_full_explained, write_atomically
from tests.helpers.full_disk import largest_file


def test_a_file_for_which_there_is_no_room_is_named_and_stays_as_it_was(tmp_path):
    path = tmp_path / "results.json"
    write_atomically(path, "old")
    message = r"results\.json cannot be written: .* Make room and run the same command again"
    with largest_file(1000), pytest.raises(DiskFullError, match=message):
        write_atomically(path, "new" * 1000)
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("results.json", "old")]


@pytest.mark.parametrize(
    "save",
    [
        lambda path: torch.save({"weight": torch.ones(5000)}, path),
        lambda path: save_file({"weight": torch.ones(5000)}, path),
        lambda path: path.write_bytes(bytes(20_000)),
    ],
    ids=["torch", "safetensors", "python"],
)
@pytest.mark.parametrize("room", [0, 200, 10_000])
def test_every_library_that_finds_no_room_is_understood(tmp_path, save, room):
    with pytest.raises(DiskFullError, match="cannot be written"), disk_full_explained(tmp_path), largest_file(room):
        save(tmp_path / "file")


@pytest.mark.parametrize("message", ["basic_ios::clear: iostream error", "[enforce fail at inline_container.cc:672] ."])
def test_other_words_of_torch(tmp_path, message):
    with pytest.raises(DiskFullError), disk_full_explained(tmp_path):
        raise RuntimeError(message)


@pytest.mark.parametrize(
    "problem",
    [
        PermissionError(errno.EACCES, "Permission denied"),
        RuntimeError("out of memory"),
        RuntimeError("PytorchStreamReader failed reading zip archive: [enforce fail at inline_container.cc:1]"),
        Exception("Permission denied (os error 13)"),
    ],
)
def test_other_errors_stay_what_they_are(tmp_path, problem):
    with pytest.raises(type(problem)) as raised, disk_full_explained(tmp_path):
        raise problem
    assert raised.value is problem
