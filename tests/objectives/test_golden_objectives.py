"""Objectives against the numbers of the published systems: values and gradients, float64."""

from dataclasses import replace

import torch

from nextword.context import Context, Source
from nextword.functional.entries import Entries
from nextword.heads.cache import CacheHead
from nextword.objectives import parse_objective
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context, seq2seq_context
from tests.helpers.trained_by_objectives import build_objective
from tests.oracles import golden


def objective(**settings):
    return build_objective(settings)


def histalign(form, numbers):
    """A released form with the margin and weight of the file."""
    settings = {name: numbers[name].item() for name in ("margin", "alpha")}
    return objective(**parse_objective(f"histalign:{form}").model_dump() | settings)


class RankingPadding(CacheHead):
    """Stores padding as the released BART code does: never visible, but with ranks of its own."""

    def entries(self, context: Context) -> Entries:
        return replace(super().entries(context), stored=None)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def mean(loss):
    return loss.total / loss.tokens


def gpt2_lm():
    numbers = golden.load("objectives/histalign_gpt2_lm")
    hidden = numbers["hidden"].clone().requires_grad_()
    weight = numbers["emb_out"].clone().requires_grad_()
    head = build_head("cache", width=8, vocab_size=13)
    targets = torch.nn.functional.pad(numbers["labels"][:, 1:], (0, 1), value=-100)
    context = decoder_context(
        head,
        hidden,
        numbers["input_ids"],
        LinearVocabulary(weight),
        counted=targets != -100,
        embedding=numbers["emb_in"],
        labels=numbers["labels"],
    )
    return numbers, head, context, targets[targets != -100], hidden, weight


def test_histalign_gpt2_trime_term() -> None:
    numbers, head, context, targets, hidden, weight = gpt2_lm()
    loss = mean(objective(objective="mle")(head, context, targets))
    close(loss, numbers["trime_loss"])
    loss.backward()
    close(hidden.grad, numbers["trime_grad_hidden"])
    close(weight.grad, numbers["trime_grad_lm_head"])


def test_histalign_gpt2() -> None:
    numbers, head, context, targets, hidden, weight = gpt2_lm()
    loss = histalign("released", numbers)(head, context, targets)
    close(loss.parts["token_loss"], numbers["hist_term_trime"])
    close(loss.parts["ranking_loss"], numbers["hist_term_rank"])
    close(mean(loss), numbers["hist_loss"])
    mean(loss).backward()
    close(hidden.grad, numbers["hist_grad_hidden"])
    close(weight.grad, numbers["hist_grad_lm_head"])


def test_histalign_gpt2_distributions() -> None:
    numbers, head, _, _, hidden, weight = gpt2_lm()
    context = decoder_context(head, hidden, numbers["input_ids"], LinearVocabulary(weight))
    shape = numbers["logp_full"].shape
    close(head(context).log_probs().view(shape), numbers["logp_full"])
    close(head(context, mode="lm_only").log_probs().view(shape), numbers["logp_lm"])
    cache, published = head(context, mode="cache_only").log_probs().view(shape), numbers["logp_cache"]
    # published: about -1e4 stands for probability zero, also everywhere in a row with nothing stored, where ours falls
    # back to the softmax
    stored = published > -9000
    assert torch.equal(stored[:, 1:], cache[:, 1:] != -torch.inf)
    close(cache[stored], published[stored])
    close(cache[:, 0], numbers["logp_lm"][:, 0])


def test_histalign_gpt2_ce_base() -> None:
    numbers, head, context, targets, _, _ = gpt2_lm()
    loss = objective(objective="histalign", base="mle", alpha=0.0)(head, context, targets)
    close(mean(loss), numbers["ce_loss"])


def bart():
    numbers = golden.load("objectives/histalign_bart")
    encoder = numbers["enc_hidden"].clone().requires_grad_()
    decoder = numbers["dec_hidden"].clone().requires_grad_()
    weight = numbers["emb_out"].clone().requires_grad_()
    head = build_head("cache", width=8, vocab_size=15, source=8)
    source = Source(numbers["input_ids"], numbers["input_ids"] != numbers["pad_id"], encoder)
    vocabulary = LinearVocabulary(weight, numbers["final_logits_bias"][0])
    labels = numbers["labels"]
    context = seq2seq_context(decoder, vocabulary, source, counted=labels != -100, embedding=numbers["emb_shared"])
    return numbers, head, context, labels[labels != -100], (encoder, decoder, weight), (source, vocabulary)


def test_histalign_bart() -> None:
    numbers, head, context, targets, (encoder, decoder, weight), _ = bart()
    close(mean(objective(objective="mle")(head, context, targets)), numbers["trime_loss"])
    loss = histalign("released-bart", numbers)(RankingPadding(head.config, head.dimensions), context, targets)
    close(loss.parts["ranking_loss"], numbers["hist_term_rank"])
    close(mean(loss), numbers["hist_loss"])
    mean(loss).backward()
    close(encoder.grad, numbers["hist_grad_enc"])
    close(decoder.grad, numbers["hist_grad_dec"])
    close(weight.grad, numbers["hist_grad_lm_head"])


def test_histalign_bart_without_ranks_of_padding() -> None:
    # the number that the released code gives where the row's padding is cut off is ours with padding
    numbers, head, context, targets, _, _ = bart()
    loss = histalign("released-bart", numbers)
    assert abs(loss(head, context, targets).parts["ranking_loss"] - numbers["hist_term_rank"]) > 0.1
    source, only = context.source, (context.row == 1).nonzero()[:, 0]
    real = int(source.valid[1].sum())
    cut = Source(source.ids[:, :real], source.valid[:, :real], source.states[:, :real])
    alone, ours = (replace(context, source=one).at(only) for one in (cut, source))
    theirs = loss(RankingPadding(head.config, head.dimensions), alone, targets[only])
    close(loss(head, ours, targets[only]).total, theirs.total)


def test_histalign_bart_distributions() -> None:
    numbers, head, _, _, (_, decoder, _), (source, vocabulary) = bart()
    context = seq2seq_context(decoder, vocabulary, source)
    shape = numbers["logp_full"].shape
    close(head(context).log_probs().view(shape), numbers["logp_full"])
    close(head(context, mode="lm_only").log_probs().view(shape), numbers["logp_lm"])
    cache, published = head(context, mode="cache_only").log_probs().view(shape), numbers["logp_cache"]
    stored = published > -9000
    assert torch.equal(stored, cache != -torch.inf)
    close(cache[stored], published[stored])


def test_trime_plain_local() -> None:
    numbers = golden.load("objectives/trime_train_plain")
    keys = numbers["rep"].clone().requires_grad_()
    states = numbers["softmax_input"].clone().requires_grad_()
    targets = numbers["target"]
    # TRIME's keys and queries are another layer than the softmax input; entry j holds target j, as ids one place later
    from nextword.distribution import Scores

    batch, length = targets.shape
    row = torch.arange(batch).repeat_interleave(length)
    place = torch.arange(length).repeat(batch)
    similarity = (keys @ keys.mT).flatten(0, 1) / keys.shape[-1] ** 0.5
    entries = Entries(targets, row, similarity, torch.arange(length) < place[:, None])
    joint = Scores(LinearVocabulary(numbers["head_weight"]), states.flatten(0, 1), stored={"memory": entries})
    loss = -joint.log_prob(targets.reshape(-1, 1)).sum()
    close(loss, numbers["local_loss_sum"])
    loss.backward()
    close(states.grad, numbers["local_grad_x"])
    close(keys.grad, numbers["local_grad_rep"])
