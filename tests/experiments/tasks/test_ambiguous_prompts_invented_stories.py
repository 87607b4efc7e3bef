from __future__ import annotations

import re

from nextword.experiments.tasks import ambiguous_prompts as corpus
from nextword.experiments.tasks.ambiguous import Ambiguous, AmbiguousConfig
from nextword.experiments.tasks.ambiguous_words import TEMPLATES, embedded


def test_every_word_is_stated_and_no_template_occurs() -> None:
    lexicon = embedded()
    text = "\n".join(corpus.documents(lexicon, 3000, seed=0))
    assert set(lexicon.words()) <= set(re.findall(r"\w+", text))
    for templates in TEMPLATES.values():
        for template in templates:
            pattern = re.escape(template).replace(r"\{\}", r"\w+")
            assert not re.search(pattern, text), template
            # Not even the part from one slot to the other, up to the blank.
            assert not re.search(pattern[pattern.index(r"\w+") :], text), template


def test_documents_are_repeatable() -> None:
    assert list(corpus.documents(embedded(), 50, seed=1)) == list(corpus.documents(embedded(), 50, seed=1))
    assert list(corpus.documents(embedded(), 50, seed=1)) != list(corpus.documents(embedded(), 50, seed=2))


def test_tokenizer_knows_every_word_of_the_text_and_of_the_prompts() -> None:
    task = Ambiguous(AmbiguousConfig())
    tokenizer = task.start.tokenizer()
    texts = [
        *corpus.documents(task.data.lexicon, 2000, seed=0),
        *(p.text for part in task.data.prompts.values() for p in part),
    ]
    texts += [prompt for _, prompt, _ in corpus.probes(task.data.lexicon)]
    for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
        assert tokenizer.unk_token_id not in ids
    assert all(len(tokenizer(word)["input_ids"]) == 1 for word in task.data.lexicon.words())


def test_a_model_sees_every_template_word_before_it_is_compared() -> None:
    text = " ".join(corpus.documents(embedded(), 5000, seed=0))
    known = set(re.findall(r"\w+", text))
    templates = " ".join(template.replace("{}", "") for group in TEMPLATES.values() for template in group)
    assert set(re.findall(r"\w+", templates)) <= known
