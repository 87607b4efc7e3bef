"""Tiny random checkpoints of the real classes, on disk as they would be found, made once a session."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from tests.helpers.tiny_judges import SIZES, WIDE, MakeFolder, byte_pairs, word_pieces


@pytest.fixture(scope="session")
def bert_classifier(tmp_path_factory: pytest.TempPathFactory) -> MakeFolder:
    """Makes a BertForSequenceClassification with the named outputs."""

    def make(*labels: str, positions: int = 64, **settings: Any) -> str:
        folder = tmp_path_factory.mktemp("bert")
        vocabulary = word_pieces(folder)
        transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
        names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=vocabulary, max_position_embeddings=positions, **SIZES, **WIDE, **names, **settings
        )
        transformers.BertForSequenceClassification(config).save_pretrained(folder)
        return str(folder)

    return make


@pytest.fixture(scope="session")
def factcc_folder(bert_classifier: MakeFolder) -> str:
    return bert_classifier("CORRECT", "INCORRECT")


@pytest.fixture(scope="session")
def nli_folder(bert_classifier: MakeFolder) -> str:
    return bert_classifier("CONTRADICTION", "NEUTRAL", "ENTAILMENT")


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A plain BertModel with a pooling layer, as SimCSE's."""
    folder = tmp_path_factory.mktemp("plain")
    vocabulary = word_pieces(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=vocabulary, max_position_embeddings=64, **SIZES, **WIDE)
    transformers.BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tapex_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BartForSequenceClassification whose files name the tokenizer that transformers dropped, as the published."""
    folder = tmp_path_factory.mktemp("tapex")
    vocabulary = byte_pairs(folder)
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "TapexTokenizer", "do_lower_case": true, "add_prefix_space": false}'
    )
    torch.manual_seed(0)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    config = transformers.BartConfig(
        vocab_size=vocabulary,
        max_position_embeddings=96,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        init_std=0.7,
        num_labels=2,
        **sizes,
    )
    config.id2label = {0: "Refused", 1: "Entailed"}
    transformers.BartForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tapas_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TapasForSequenceClassification whose outputs have no names, as the published."""
    folder = tmp_path_factory.mktemp("tapas")
    vocabulary = word_pieces(folder)
    transformers.TapasTokenizer(str(folder / "vocab.txt"), model_max_length=512).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.TapasConfig(
        vocab_size=vocabulary,
        max_position_embeddings=512,
        type_vocab_sizes=[3, 32, 32, 2, 32, 32, 10],
        num_labels=2,
        **SIZES,
        **WIDE,
    )
    transformers.TapasForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A GPT2LMHeadModel over bytes, as language models are found; MAUVE reads its states."""
    folder = tmp_path_factory.mktemp("gpt2")
    vocabulary = byte_pairs(folder)
    files = {"vocab": str(folder / "vocab.json"), "merges": str(folder / "merges.txt")}
    transformers.GPT2Tokenizer(**files, eos_token="</s>", bos_token="<s>", unk_token="<unk>").save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_embd=16, n_layer=2, n_head=2, n_positions=48, initializer_range=0.5
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is no folder fails at once instead of asking the network again and again."""
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
