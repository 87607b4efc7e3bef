"""Tokenizers of the kinds that language models have, each trained on a few lines of several scripts."""

from __future__ import annotations

from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from nextword.experiments.tasks.tokenizers import trained_tokenizer, word_tokenizer

TEXTS = (
    "The king sat on the throne. The king stood.",
    "  two  spaces,\n\na line\tand a tab \n",
    "שלום עולם, مرحبا بالعالم!",
    "🙂👩‍👩‍👧 naïve façades; 정말 좋았다 €5",
    "<script>alert('&amp;')</script>",
    "x",
)


@cache
def byte_level() -> Any:
    """Bytes as the base alphabet; spaces are in the spans."""
    return trained_tokenizer("\n".join(TEXTS[:3]) * 3, 330, None)


@cache
def trimmed() -> Any:
    """As GPT-2's: the space before a word is in the token, and not in its span."""
    tokenizer = Tokenizer.from_str(byte_level().backend_tokenizer.to_str())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<eos>", eos_token="<eos>", pad_token="<pad>")


@cache
def bart() -> Any:
    """Bytes, with <pad> before a text and <eos> after it."""
    tokenizer = Tokenizer.from_str(byte_level().backend_tokenizer.to_str())
    ends = [(name, tokenizer.token_to_id(name)) for name in ("<pad>", "<eos>")]
    tokenizer.post_processor = processors.TemplateProcessing("<pad> $A <eos>", None, ends)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<eos>", eos_token="<eos>", pad_token="<pad>")


@cache
def t5() -> Any:
    """Unigram: the start of a word is ▁, white space is made one space, what is unknown is <unk>, </s> at the end."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("\n", " "), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXTS[:1] * 5, trainer)
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


@cache
def words() -> Any:
    """A token for each word; white space is dropped."""
    return word_tokenizer(TEXTS)


@cache
def pieces() -> Any:
    """As BERT's: lower case, [CLS] and [SEP] around a text."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
