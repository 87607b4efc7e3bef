"""The kNN head: its formula, every head below it, what it leaves out, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.heads.calibration import best_weight
from nextword.inference.datastore import grow, remember_recent, tuned_weight
from nextword.inference.scoring.opened_model import OpenedModel, open_model
from nextword.retrieval import StoredKeys
from tests.helpers.small_datastores import saved_model, small_store, texts
from tests.helpers.word_models import WORDS, word_model, word_tokenizer
from tests.oracles.textbook import memory as textbook

STRANGER = "it ran far and the queen saw the old dog on a horse the dog ran the king far"
"""A text that is not in the store."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return small_store(tmp_path_factory.mktemp("knn"))


def attached(made: tuple[Path, Path], spec: str = "", head: str = "softmax") -> OpenedModel:
    folder, store = made
    model = nw.attach(nw.load(folder, head=head), f'knn:store="{store}",k=8{spec}')
    return OpenedModel("knn", model.eval(), word_tokenizer())


def ids_of(text: str) -> torch.Tensor:
    return torch.tensor([[1, *word_tokenizer()(text, add_special_tokens=False)["input_ids"]]])


@pytest.mark.few(2)
@torch.no_grad()
@pytest.mark.parametrize("distance", ["", ",distance=euclidean", ",distance=dot"])
def test_formula(made: tuple[Path, Path], distance: str) -> None:
    """Against the sum over all keys, written down without any of the parts."""
    opened, ids = attached(made, f",temperature=0.7,weight=0.4,overlap=0{distance}"), ids_of(STRANGER)
    states = opened.model.backbone.transformer(ids).last_hidden_state[0]
    keys = StoredKeys(made[1])
    stored = torch.cat([block for _, block in keys.blocks(10_000)])
    near = states @ stored.T if distance == ",distance=dot" else -torch.cdist(states, stored).square()
    best = near.topk(8)
    weights = (best.values / (0.7 * math.sqrt(16))).softmax(-1)
    expected = 0.6 * opened.model.backbone(ids).logits[0].softmax(-1)
    for position in range(len(states)):
        for number, weight in zip(best.indices[position].numpy(), weights[position], strict=True):
            expected[position, keys.tokens_at(number.reshape(1))[0]] += 0.4 * weight
    torch.testing.assert_close(opened.model.distribution(ids).probs(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("distance", ["", ",distance=euclidean", ",distance=dot"])
@pytest.mark.parametrize("below", ["softmax", "cache:published"])
def test_one_normaliser_is_that_of_the_textbook(made: tuple[Path, Path], below: str, distance: str) -> None:
    """TRIME's external memory, in double precision and with gradients: what is found beside a cache of the text."""
    folder, store = made
    model = nw.attach(nw.load(folder).backbone.double(), below)
    model = nw.attach(model, f'knn:store="{store}",k=8,mix=joint,overlap=0,temperature=0.7{distance}').eval()
    ids, embeddings = ids_of(STRANGER), model.get_input_embeddings().weight
    states = model.backbone.transformer(ids).last_hidden_state
    keys = StoredKeys(store)
    stored = torch.from_numpy(keys.keys_at(np.arange(len(keys)))).double()
    similar = -(states[:, :, None] - stored).square().sum(-1) if "euclidean" in distance else states @ stored.T
    visible = torch.zeros_like(similar, dtype=torch.bool).scatter_(2, similar.topk(8).indices, True)
    values = torch.from_numpy(keys.tokens_at(np.arange(len(keys))))[None]
    memory = textbook.Memory(similar / (0.7 * math.sqrt(16)), values, visible)
    if below != "softmax":
        own = textbook.decoder_memory(states, ids)
        parts = zip(*((one.scores, one.values, one.visible) for one in (own, memory)), strict=True)
        memory = textbook.Memory(*(torch.cat(part, -1) for part in parts))
    expected = textbook.log_joint(model.backbone(ids).logits, memory)[0]
    found = model.distribution(ids).log_probs()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    targets = torch.arange(len(found)) % found.shape[1]
    gradients = [
        torch.autograd.grad(one[torch.arange(len(one)), targets].sum(), embeddings)[0] for one in (found, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-10)


BELOW = ["softmax+cpr:20,10", "mos:2", "cache", "ps", "sigsoftmax", "softmax+mi:2x3"]
QUICK = {("softmax+cpr:20,10", "fixed"), ("mos:2", "gate"), ("cache", "fixed")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "mix"),
    [
        pytest.param(head, mix, marks=[] if (head, mix) in QUICK else [pytest.mark.slow])
        for head in BELOW
        for mix in ("fixed", "gate")
    ],
)
def test_the_checker_passes_over_every_head(made: tuple[Path, Path], head: str, mix: str) -> None:
    opened = attached(made, f",mix={mix}", head)
    nw.check(opened.model, [texts()[0], STRANGER], tokenizer=word_tokenizer(), lengths=[5]).raise_if_failed()


@pytest.mark.slow
@pytest.mark.parametrize("head", ["softmax+cpr:20,10", "cache:published"])
def test_the_checker_passes_with_one_normaliser(made: tuple[Path, Path], head: str) -> None:
    opened = attached(made, ",mix=joint", head)
    nw.check(opened.model, [STRANGER], tokenizer=word_tokenizer(), lengths=[5]).raise_if_failed()


def test_one_normaliser_needs_one_softmax(made: tuple[Path, Path]) -> None:
    opened = attached(made, ",mix=joint", "mos:2")
    with pytest.raises(ValueError, match="knn: mix=joint: must be over"):
        opened.model.distribution(ids_of(STRANGER))


def test_the_trained_head_stays_below(made: tuple[Path, Path]) -> None:
    """With its weights; also below another store, and after saving and loading."""
    folder, store = made
    model = nw.load(folder, head="mos:2")
    with torch.no_grad():
        model.next_word_head.project[0].weight.add_(0.5)
    over = nw.attach(model, f'knn:store="{store}",k=4')
    ids = ids_of(STRANGER)
    torch.testing.assert_close(over.distribution(ids, mode="below").log_probs(), model.distribution(ids).log_probs())
    again = nw.attach(over, f'knn:store="{store}",k=2')
    assert again.next_word_head.below is model.next_word_head
    assert nw.heads.head_spec(over.next_word_head.config).startswith('knn:below="mos:2"')


def test_saved_and_loaded(made: tuple[Path, Path], tmp_path: Path) -> None:
    opened = attached(made, ",mix=gate", "softmax+mi:2x3")
    opened.model.save_pretrained(tmp_path / "saved")
    word_tokenizer().save_pretrained(tmp_path / "saved")
    loaded = open_model(tmp_path / "saved").model
    ids = ids_of(STRANGER)
    torch.testing.assert_close(loaded.distribution(ids).log_probs(), opened.model.distribution(ids).log_probs())


@torch.no_grad()
def test_a_text_that_is_in_the_store_does_not_find_itself(made: tuple[Path, Path]) -> None:
    """Planted: each document of the store, scored whole and from its middle on; unless that is asked for."""
    opened, seen = attached(made), attached(made, ",overlap=0")
    for document, text in enumerate(texts()):
        for first in (0, 6) if text else ():
            ids = ids_of(" ".join(text.split()[first:]))
            distribution = opened.model.distribution(ids)
            stands, positions = distribution.stands_in_store()["knn"], distribution.positions()["knn"]
            own = stands[..., 0].eq(document) & stands[..., 1].eq(torch.arange(first, first + ids.shape[1])[:, None])
            assert not positions[own].any()
            if not first:
                with_own = seen.model.distribution(ids)
                stands, positions = with_own.stands_in_store()["knn"], with_own.positions()["knn"]
                own = stands[..., 0].eq(document) & stands[..., 1].eq(torch.arange(ids.shape[1])[:, None])
                assert (positions * own).sum(1)[:16].min() > 0, "without the rule each position finds itself"


@torch.no_grad()
def test_a_copy_inside_another_text_is_left_out_once_it_is_long_enough(made: tuple[Path, Path]) -> None:
    opened = attached(made, ",overlap=3")
    copied = texts()[2]
    ids = ids_of(f"{STRANGER} {copied}")
    before = len(STRANGER.split())
    distribution = opened.model.distribution(ids)
    stands, positions = distribution.stands_in_store()["knn"], distribution.positions()["knn"]
    expected = torch.arange(ids.shape[1]) - before
    own = stands[..., 0].eq(2) & stands[..., 1].eq(expected[:, None])
    assert not positions[own].any()


@torch.no_grad()
def test_sources_and_places_name_document_and_offset(made: tuple[Path, Path]) -> None:
    opened, ids = attached(made, ",overlap=0"), ids_of(STRANGER)
    distribution = opened.model.distribution(ids)
    assert distribution.positions_in()["knn"] == "store"
    stands, keys = distribution.stands_in_store()["knn"], StoredKeys(made[1])
    targets = ids[0, 1:]
    at_targets = distribution[torch.arange(len(targets))]
    positions = at_targets.token_positions(targets)["knn"]
    torch.testing.assert_close(positions.sum(1), at_targets.sources(targets[:, None])["knn"][:, 0])
    assert (positions > 0).any()
    for position, neighbour in (positions > 0).nonzero().tolist():
        document, offset = stands[position, neighbour].tolist()
        assert keys.stretch(document, offset, offset) == ([int(targets[position])], offset)


@pytest.mark.slow
def test_the_gate_learns_when_to_trust_the_store(made: tuple[Path, Path]) -> None:
    """Half of the text stands in the store and finds itself, after half the store knows nothing true: no one weight
    serves both. The gate, which sees the distance and how far what is found agrees, ends below the best weight."""
    opened = attached(made, ",mix=gate,overlap=0,temperature=0.1")
    ids = ids_of(texts()[-1])
    strangers = ids_of(" ".join(reversed(STRANGER.split() * 2)))[:, : ids.shape[1]]
    rows = torch.cat([ids, strangers])
    model = opened.model.eval().requires_grad_(False)
    gate = model.next_word_head.mixing.linear.requires_grad_(True)
    at = torch.arange(rows.numel()).view(rows.shape)[:, :-1].flatten()
    distribution, targets = model.distribution(rows)[at], rows[:, 1:].reshape(-1, 1)
    with torch.no_grad():
        below = distribution.base.log_prob(targets).exp()[:, 0].double().numpy()
        entries = distribution.attention
        shares = entries.scores.masked_fill(~entries.visible, -torch.inf).softmax(1)
        found = (shares * (entries.ids == targets)).sum(1).double().numpy()
    with np.errstate(divide="ignore"):
        best = best_weight(np.log(below), np.log(found))
    fixed = -float(np.log((1 - best) * below + best * found).mean())
    assert 0.05 < best < 0.95, "neither alone is the answer"
    optimizer = torch.optim.Adam(gate.parameters(), lr=0.3)
    for _ in range(40):
        optimizer.zero_grad()
        loss = -model.distribution(rows)[at].log_prob(targets).mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < fixed - 0.1
    trust = model.distribution(rows)[at].log_rest.exp().view(2, -1).mean(1)
    assert trust[0] > 2 * trust[1]


@torch.no_grad()
def test_the_tuned_weight_is_the_best(made: tuple[Path, Path]) -> None:
    opened = attached(made)
    text = " ".join(texts()[:3])
    ids = ids_of(text)

    def likelihood(weight: float) -> float:
        opened.model.configure_head(weight=weight)
        distribution = opened.model.distribution(ids)[torch.arange(ids.shape[1] - 1)]
        return float(distribution.log_prob(ids[0, 1:, None]).sum())

    best = tuned_weight(opened, text, window=64)
    around = [likelihood(min(max(best + step, 1e-6), 1 - 1e-6)) for step in (-0.05, 0.0, 0.05)]
    assert around[1] >= max(around)


@pytest.mark.slow
@torch.no_grad()
def test_a_store_that_grows_finds_what_was_said_and_forgets_the_oldest(made: tuple[Path, Path]) -> None:
    folder, _ = made
    opened = OpenedModel("knn", nw.attach(nw.load(folder), "knn:published,k=4").eval(), word_tokenizer())
    ids = ids_of(STRANGER)
    plain = opened.model.distribution(ids, mode="below").log_probs()
    torch.testing.assert_close(opened.model.distribution(ids).log_probs(), plain)
    remember_recent(opened, most=len(STRANGER.split()) + 2)
    assert grow(opened, STRANGER) == len(STRANGER.split())
    said = opened.model.distribution(ids)[torch.arange(ids.shape[1] - 1)]
    shares = said.sources(ids[0, 1:, None])["knn"][:, 0]
    assert (shares > 0.05).all(), "each state finds itself"
    nw.check(opened.model, [STRANGER], tokenizer=word_tokenizer(), lengths=[5]).raise_if_failed()
    grow(opened, texts()[1])
    recent = opened.model.next_word_head.recent
    assert len(recent) == recent.most
    stands = opened.model.distribution(ids).stands_in_store()["knn"]
    assert stands[..., 0].max() == 1
    grow(opened, texts()[2])
    assert opened.model.distribution(ids).stands_in_store()["knn"][..., 0].min() >= 1, "the first is forgotten"


@pytest.mark.slow
@torch.no_grad()
def test_what_is_being_written_is_remembered_by_a_cache_below(made: tuple[Path, Path]) -> None:
    folder, store = made
    below = "cache:long=6,weight=0.6,temperature=0.1"
    model = nw.attach(nw.load(folder), f'knn:published,below="{below}",store="{store}",k=4').eval()
    ids = ids_of(STRANGER)
    asked = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    written, alone = (model.generate(ids, use_cache=cached, **asked) for cached in (True, False))
    assert torch.equal(written, alone)
    new = torch.arange(ids.shape[1], written.shape[1])
    shares = model.distribution(written)[new - 1].sources(written[0, new, None])
    assert (shares["cache"] > 0.1).any()
    assert (shares["knn"] > 0.1).any()


@pytest.mark.parametrize("mix", ["fixed", "joint"])
@torch.no_grad()
def test_two_datastores_are_two_components(made: tuple[Path, Path], mix: str) -> None:
    folder, store = made
    inner = {"head": "knn", "store": str(store), "k": 4, "mix": mix, **({"weight": 0.3} if mix == "fixed" else {})}
    model = nw.attach(nw.load(folder), {**inner, "k": 8, "below": inner}).eval()
    ids = ids_of(STRANGER)
    distribution = model.distribution(ids)
    every = torch.arange(distribution.vocab_size).expand(len(distribution), -1)
    shares = distribution.sources(every)
    assert {"knn", "knn 2"} < shares.keys()
    assert all((share > 1e-4).any() for share in shares.values())
    torch.testing.assert_close(sum(shares.values()), distribution.probs())
    torch.testing.assert_close(distribution.probs().sum(-1), torch.ones(len(distribution)))
    assert distribution.stands_in_store().keys() == {"knn", "knn 2"} == model.next_word_head.stored_texts().keys()


def test_what_does_not_fit_is_refused(made: tuple[Path, Path], tmp_path: Path) -> None:
    folder, store = made
    other = saved_model(tmp_path / "other", seed=1)
    with pytest.raises(ValueError, match=r"store:.*the same (model|weights)"):
        nw.attach(nw.load(other), f'knn:store="{store}",k=4')
    with pytest.raises(ValueError, match=r"store:.*the same (model|weights)"):
        nw.attach(nw.load(other), {"head": "knn", "k": 4, "below": f'knn:store="{store}",k=4'})
    wide = nw.attach(word_model(n_embd=32), "softmax")
    with pytest.raises(ValueError, match=r"store:.*model's width of 32"):
        nw.attach(wide, f'knn:store="{store}",k=4')
    longer = nw.attach(word_model(vocab_size=60), "softmax")
    with pytest.raises(ValueError, match=r"store:.*model's vocabulary of 60"):
        nw.attach(longer, f'knn:store="{store}",k=4')
    with pytest.raises(ValueError, match=r"192 keys.*\(500 given"):
        nw.attach(nw.load(folder), f'knn:store="{store}",k=500')
    with pytest.raises(ValueError, match=r"store:.*datastore"):
        nw.attach(nw.load(folder), f'knn:store="{tmp_path}"')


def test_another_tokenizer_is_refused_wherever_it_is_known(made: tuple[Path, Path], tmp_path: Path) -> None:
    """The same weights, and words under other numbers: when opened, loaded, attached by hand, and set afterwards."""
    folder, store = made
    message = r"store: must be made with the model's tokenizer \('.*' was made with \w{12}, the model's is \w{12}\)"
    other = word_tokenizer([*WORDS[1:], WORDS[0]])
    retrieving = nw.attach(nw.load(folder), f'knn:store="{store}",k=4')
    with pytest.raises(ValueError, match=message):
        OpenedModel.of(retrieving, other)
    retrieving.save_pretrained(tmp_path / "saved")
    nw.load(tmp_path / "saved")  # without a tokenizer there is nothing to compare
    other.save_pretrained(tmp_path / "saved")
    with pytest.raises(ValueError, match=message):
        nw.load(tmp_path / "saved")
    word_tokenizer().save_pretrained(tmp_path / "saved")
    open_model(tmp_path / "saved")
    without = nw.attach(nw.load(folder), "knn:k=4")
    OpenedModel.of(without, other)
    without.configure_head(store=str(store))
    with pytest.raises(ValueError, match=message):
        without.distribution(ids_of(STRANGER))


def slightly_trained(folder: Path, halvings: int = 3) -> nw.NextWordModel:
    """The model with all weights larger by a part of themselves."""
    model = nw.load(folder)
    with torch.no_grad():
        for weight in model.backbone.parameters():
            weight.mul_(1 + 2.0**-halvings)
    return model


def test_a_store_of_weights_that_are_near_is_used_with_a_warning(
    made: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Said once; the same weights in bfloat16 are the same weights."""
    folder, store = made
    spec = f'knn:store="{store}",k=4'
    nw.attach(nw.load(folder, dtype=torch.bfloat16), spec)
    assert not caplog.records
    model = slightly_trained(folder, 7)
    over = nw.attach(model, spec)
    assert [one.getMessage() for one in caplog.records] == [
        f"store: '{store}' was made with other weights of this model; it is used, because their states are "
        "similar. After training, build it again."
    ]
    over.configure_head(k=2, distance="dot")
    over.distribution(ids_of(STRANGER))
    assert len(caplog.records) == 1
    with pytest.raises(ValueError, match=r"store:.*the same (model|weights)"):
        nw.attach(slightly_trained(folder), spec)


def test_a_store_set_afterwards_must_be_of_these_weights(made: tuple[Path, Path]) -> None:
    folder, store = made
    other = nw.attach(slightly_trained(folder, 7), "knn:k=4")
    other.configure_head(store=str(store))
    with pytest.raises(ValueError, match=r"other weights\)"):
        other.distribution(ids_of(STRANGER))
    same = nw.attach(nw.load(folder), "knn:k=4")
    same.configure_head(store=str(store))
    same.distribution(ids_of(STRANGER))
