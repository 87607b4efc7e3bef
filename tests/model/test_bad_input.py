"""What a user gets wrong, and what they are told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)

import nextword as nw

V = 30


def gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=V, n_embd=8, n_layer=2, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config).eval()


def t5(width: int = 8) -> T5ForConditionalGeneration:
    torch.manual_seed(0)
    return T5ForConditionalGeneration(
        T5Config(vocab_size=V, d_model=width, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    ).eval()


@pytest.mark.parametrize(
    ("head", "objective", "message"),
    [
        ("softmx", "mle", "Did you mean 'softmax'"),
        ("", "mle", "unknown head ''"),
        ("softmax+m", "mle", "Did you mean 'mi'"),
        ("cache+mi", "mle", r"'cache' takes no '\+mi', which is for .*mos, .*softmax; it takes no modifier"),
        ("cache+c", "mle", "takes no '\\+c'"),
        ("sigsoftmax+c", "mle", "it takes \\+mi"),
        ("softmax+cpx", "mle", "unknown modifier 'cpx'. Did you mean 'cp'"),
        ("softmax+r", "mle", "followed by numbers of candidates such as r:20,100"),
        ("softmax+r:0", "mle", "followed by numbers of candidates"),
        ("softmax+r:5,5", "mle", "different positive numbers"),
        ("softmax+r:5,99", "mle", "at most 30, the vocabulary .99 given"),
        ("softmax+c:5", "mle", r"takes no arguments \('5' given\); only r has sizes"),
        (
            "softmax+c+r:5",
            "mle",
            r"'\+r' is given beside '\+c'; write both as one, as in 'softmax\+cr:5'",
        ),
        ("softmax+ce", "mle", r"a decoder-only model has none; use \+c, or attach a conditioner"),
        ({"head": "softmax", "partition": {}}, "mle", "at least one of context, encoder, pointer and rerank"),
        ({"head": "softmax", "partition": {"contxt": True}}, "mle", "head.partition.contxt: .* 'context'"),
        (
            {"head": "softmax", "partition": {"context": True, "mode": "sum"}},
            "mle",
            "partition.mode: must be .*'assign'",
        ),
        ("pg:3", "mle", "takes no arguments"),
        ({"head": "pg", "gate_bias": float("inf")}, "mle", "head.gate_bias: must be .*finite"),
        ({"head": "pg", "tanh": True}, "mle", "head.tanh: unknown key"),
        ("copynet", "histalign", "stores no tokens"),
        ("softmax+c", "mle:labels", "no memory values"),
        ("mos:0", "mle", "at least 1"),
        ("mos:3,sttic", "mle", "with a gate from dynamic, static, uniform .'3,sttic' given"),
        ("softmax+mi:9x3", "mle", r"at most the decoder's 2 \(9 given\); \+mi:2x3 reads"),
        ("softmax+mi:3", "mle", "layers x window"),
        ({"head": "mos", "componets": 3}, "mle", "head.componets: unknown key. Did you mean 'components'"),
        ({"components": 3}, "mle", "head: missing"),
        (
            {"head": "cache", "temperature": 0.0},
            "mle",
            r"head\.temperature: must be more than 0 or .fitted. \(0\.0 given\)",
        ),
        ("softmax", "mel", "Did you mean 'mle'"),
        ("softmax", "histalign", "stores no tokens"),
        ("mos:3", "mle:labels", "no memory values"),
    ],
)
def test_specs(head, objective, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nw.attach(gpt2(), head, objective)


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_layers_are_those_of_the_decoder(family: str) -> None:
    """Not of the encoder, and not those that the class of a configuration has by default."""
    if family == "bart":
        heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
        config = BartConfig(vocab_size=V, d_model=8, encoder_layers=3, decoder_layers=1, **heads)
        model = BartForConditionalGeneration(config)
    else:
        model = T5ForConditionalGeneration(
            T5Config(vocab_size=V, d_model=8, d_kv=4, d_ff=16, num_layers=3, num_decoder_layers=1, num_heads=2)
        )
    with pytest.raises(ValueError, match=r"decoder's 1 \(2 given\); \+mi:1x2"):
        nw.attach(model, "softmax+mi:2x2")


def test_models_that_cannot_carry_a_head() -> None:
    with pytest.raises(ValueError, match="a transformers model"):
        nw.attach(torch.nn.Linear(2, 2), "softmax")
    for name in ("gpt2", Path("gpt2")):
        with pytest.raises(ValueError, match=r"the name 'gpt2' given\); use nextword\.load\('gpt2', 'cache'\)"):
            nw.attach(name, "cache")  # type: ignore[arg-type]
    bert = BertModel(BertConfig(vocab_size=V, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
    with pytest.raises(ValueError, match="no output embedding layer"):
        nw.attach(bert, "softmax")


@pytest.mark.parametrize("head", ["softmax", "cache", "softmax+mi:2x3", "softmax+cpr:3,5", "pg"])
def test_inputs(head: str) -> None:
    model = nw.attach(gpt2(), head)
    with pytest.raises(ValueError, match="empty prompt"):
        model(torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="no tokens"):
        model()
    with pytest.raises(ValueError, match=f"token id {V} is outside the vocabulary of {V} tokens"):
        model(torch.tensor([[1, V]]))
    with pytest.raises(ValueError, match="token id -1 is outside"):
        model(torch.tensor([[1, -1]]))
    with pytest.raises(ValueError, match="17 positions"):
        model(torch.zeros(1, 17, dtype=torch.long))
    with pytest.raises(ValueError, match=r"labels: token id 99 is outside .*or -100"):
        model(torch.tensor([[1, 2]]), labels=torch.tensor([[1, 99]]))
    with pytest.raises(ValueError, match=r"labels: must be .*shape"):
        model(torch.tensor([[1, 2]]), labels=torch.tensor([[1]]))
    with pytest.raises(ValueError, match=r"positions: must be .*shape"):
        model.distribution(torch.tensor([[1, 2]]), positions=torch.ones(1, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="mode 'cache'"):
        model.distribution(torch.tensor([[1, 2]]), mode="cache")


@pytest.mark.few(7)
@pytest.mark.parametrize(
    "head",
    ["softmax", "cache", "softmax+mi:2x3", "mos:2", "softmax+c", "softmax+cpr:3,5", "softmax+p", "copynet", "pg", "ps"],
)
def test_defined_results(head: str) -> None:
    model = nw.attach(gpt2(), head)
    one = model.distribution(torch.tensor([[5]]))
    torch.testing.assert_close(one.probs().sum(-1), torch.ones(1))
    padded = model.distribution(torch.tensor([[5, 6], [0, 0]]), torch.tensor([[1, 1], [0, 0]]))
    torch.testing.assert_close(padded.probs().sum(-1), torch.ones(4))
    out = model.train()(torch.tensor([[5, 6]]), labels=torch.tensor([[-100, -100]]))
    assert out.loss == 0
    out.loss.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_targets_at_padding_do_not_count() -> None:
    model = nw.attach(gpt2(), "cache")
    short, ids = torch.tensor([[5, 6, 7]]), torch.tensor([[5, 6, 7, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 0, 0]])
    torch.testing.assert_close(model(ids, mask, labels=ids).loss, model(short, labels=short).loss)


@pytest.mark.parametrize("head", ["cache", "softmax+cpr:3,5", "copynet", "pg", "ps"])
def test_nan_states_are_not_hidden(head: str) -> None:
    model = nw.attach(gpt2(), head)
    model.backbone.transformer.ln_f.weight.data[0] = torch.nan
    ids = torch.tensor([[5, 6]])
    assert model(ids, labels=ids).loss.isnan()
    assert model.distribution(ids).log_probs().isnan().all()


@pytest.mark.parametrize("head", ["cache", "softmax+e", "softmax+cepr:3", "pg"])
def test_source_words_are_needed(head: str) -> None:
    model = nw.attach(t5(), head)
    ids, target = torch.tensor([[3, 4, 1]]), torch.tensor([[0, 3]])
    encoded = model.get_encoder()(ids)
    with pytest.raises(ValueError, match="source_ids"):
        model(encoder_outputs=encoded, decoder_input_ids=target)
    given = model(encoder_outputs=encoded, decoder_input_ids=target, source_ids=ids).logits
    torch.testing.assert_close(given, model(input_ids=ids, decoder_input_ids=target).logits)


def test_source_words_fit_the_encoders_states() -> None:
    model = nw.attach(t5(), "softmax+e")
    encoded = model.get_encoder()(torch.tensor([[3, 4, 1]]))
    with pytest.raises(ValueError, match=r"source_ids:.*\(1, 2\) given"):
        model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([[0]]), source_ids=torch.tensor([[3, 4]]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1, 2]], "must be a tensor of ids .* .list given"),
        (torch.tensor([1, 2]), r"must be \(batch, positions\) \(shape \(2,\) given\)"),
        (torch.tensor([[1.0, 2.0]]), "input_ids: must be whole numbers, .* .torch.float32 given"),
    ],
)
def test_what_is_no_batch_of_tokens(given, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nw.attach(gpt2(), "cache").distribution(given)
    with pytest.raises(ValueError, match=r"attach:.*'cache'"):
        nw.attach(gpt2(), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("head", ["softmax+cpr:3", "cache", "pg", "ps", "copynet", "mos:2+c"])
def test_ids_of_32_bits_are_ids(head: str) -> None:
    model, ids = nw.attach(gpt2(), head), torch.tensor([[5, 6, 5, 6]])
    expected = model(ids, labels=ids).loss
    torch.testing.assert_close(model(ids.int(), labels=ids).loss, expected)


def test_vocabulary_that_rules_out_a_token() -> None:
    bare = gpt2()
    bare.lm_head.bias = torch.nn.Parameter(torch.zeros(V).index_fill(0, torch.tensor([7]), -torch.inf))
    ids = torch.tensor([[5, 7, 5, 7]])
    for mode in ("assign", "add"):
        partition = {"context": True, "pointer": True, "rerank": [3], "mode": mode, "rerank_mode": mode}
        model = nw.attach(bare, {"head": "softmax", "partition": partition})
        assert (model.distribution(ids).probs()[:, 7] == 0).all()
        out = model(ids, labels=torch.tensor([[-100, -100, 5, -100]]))
        out.loss.backward()
        assert all(p.grad.isfinite().all() for name, p in model.next_word_head.named_parameters() if p.grad is not None)


def test_an_output_layer_that_is_no_plain_matrix() -> None:
    """Adapted or quantised layers are asked for all scores; the few that are wanted are picked out."""

    class Adapted(torch.nn.Linear):
        pass

    plain, adapted = nw.attach(gpt2(), "softmax+cpr:3"), gpt2()
    adapted.lm_head.__class__ = Adapted
    model = nw.attach(adapted, "softmax+cpr:3")
    model.next_word_head.load_state_dict(plain.next_word_head.state_dict())
    ids = torch.tensor([[5, 6, 5, 6]])
    for mebibytes in (64, 1e-4):
        with nw.score_memory(mebibytes):
            torch.testing.assert_close(model(ids, labels=ids).loss, plain(ids, labels=ids).loss)


def test_a_head_that_returns_no_distribution() -> None:
    model = nw.attach(gpt2(), "softmax")
    model.next_word_head.forward = lambda context, mode=None: context.states
    message = "head 'softmax': forward must return a distribution such as SoftmaxDistribution (Tensor given)"
    with pytest.raises(TypeError, match=re.escape(message)):
        model.distribution(torch.tensor([[3, 4]]))
    assert message in str(nw.check(model))


def test_an_asked_mode_wins_over_the_setting() -> None:
    model, ids = nw.attach(gpt2(), {"head": "cache", "mode": "cache_only"}), torch.tensor([[3, 4, 3, 4]])
    log_probs = {mode: model.distribution(ids, mode=mode).log_probs() for mode in (None, "joint", "cache_only")}
    assert torch.equal(log_probs[None], log_probs["cache_only"])
    assert not torch.equal(log_probs["joint"], log_probs["cache_only"])


def test_settings_of_a_built_head() -> None:
    model = nw.attach(gpt2(), "cache")
    model.configure_head(temperature=2.0, weight=0.1)
    assert model.config.head["weight"] == 0.1
    with pytest.raises(ValueError, match="Did you mean 'temperature'"):
        model.configure_head(temperatur=2.0)
    with pytest.raises(ValueError, match="at most 1"):
        model.configure_head(weight=2.0)
    with pytest.raises(ValueError, match=r"head\.components: cannot change"):
        nw.attach(gpt2(), "mos:3").configure_head(components=2)
    with pytest.raises(ValueError, match="nothing to align"):
        nw.attach(gpt2(), "softmax").set_objective("histalign")


class TestLoad:
    def saved(self, folder: Path) -> Path:
        nw.attach(gpt2(), "mos:2").save_pretrained(folder)
        return folder

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="no such folder"):
            nw.load(tmp_path / "nowhere")

    def test_empty(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"no config\.json"):
            nw.load(tmp_path)

    def test_no_weights(self, tmp_path: Path) -> None:
        (self.saved(tmp_path) / "model.safetensors").unlink()
        with pytest.raises(ValueError, match=str(tmp_path)):
            nw.load(tmp_path)

    def test_half_written_weights(self, tmp_path: Path) -> None:
        weights = self.saved(tmp_path) / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
        with pytest.raises(ValueError, match="damaged or half written"):
            nw.load(tmp_path)

    def test_half_written_config(self, tmp_path: Path) -> None:
        config = self.saved(tmp_path) / "config.json"
        config.write_text(config.read_text()[:40])
        with pytest.raises(ValueError, match=str(tmp_path)):
            nw.load(tmp_path)

    def test_missing_weights_of_the_head(self, tmp_path: Path) -> None:
        nw.attach(gpt2(), "softmax+cpr:3").save_pretrained(tmp_path)
        weights = load_file(tmp_path / "model.safetensors")
        kept = {name: value for name, value in weights.items() if "partition.local" not in name}
        save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
        with pytest.raises(ValueError, match=r"'softmax\+cpr:3'"):
            nw.load(tmp_path)
        assert nw.load(tmp_path, "pg").next_word_head.config.head == "pg"

    def test_weights_of_another_head(self, tmp_path: Path) -> None:
        config = self.saved(tmp_path) / "config.json"
        config.write_text(json.dumps({k: v for k, v in json.loads(config.read_text()).items() if k != "head"}))
        with pytest.raises(ValueError, match="'softmax'"):
            nw.load(tmp_path)

    def test_trained_weights_stay_where_a_bias_is_added(self, tmp_path: Path) -> None:
        """transformers starts a module anew whose weights are only partly there; those that are there stay."""
        partition = {"context": True, "pointer": True}
        model = nw.attach(gpt2(), {"head": "softmax", "partition": partition, "bias": False})
        for parameter in model.next_word_head.parameters():
            parameter.data.normal_()
        model.save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        config["head"]["bias"] = True
        (tmp_path / "config.json").write_text(json.dumps(config))
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path).next_word_head
        for name, value in model.next_word_head.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], value), name
        assert not loaded.partition.local.query.bias.any()

    def test_unknown_head_in_config(self, tmp_path: Path) -> None:
        config = self.saved(tmp_path) / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"head": {"head": "moss"}}))
        with pytest.raises(ValueError, match="Did you mean 'mos'"):
            nw.load(tmp_path)

    def test_ordinary_checkpoint_with_a_head(self, tmp_path: Path) -> None:
        plain = gpt2()
        plain.save_pretrained(tmp_path)
        model = nw.load(tmp_path, "cache", "histalign").eval()
        assert model.config.head["head"] == "cache"
        assert model.config.objective["objective"] == "histalign"
        assert torch.equal(
            nw.load(tmp_path).eval()(torch.tensor([[1, 2]])).logits, plain(torch.tensor([[1, 2]])).logits
        )

    def test_from_pretrained_of_an_ordinary_checkpoint_starts_the_head(self, tmp_path: Path) -> None:
        plain = gpt2()
        plain.save_pretrained(tmp_path)
        model = nw.NextWordForCausalLM.from_pretrained(tmp_path, head="mos:2").eval()
        ids = torch.tensor([[1, 2, 3]])
        torch.testing.assert_close(model(ids).logits, plain(ids).logits.log_softmax(-1))

    def test_other_head_than_the_saved_one(self, tmp_path: Path) -> None:
        assert nw.load(self.saved(tmp_path), "cache").config.head["head"] == "cache"
        assert AutoModelForCausalLM.from_pretrained(tmp_path).config.head["head"] == "mos"


def test_a_configuration_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{ half", encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json: must be JSON \(.*line 1 column 3"):
        nw.load(tmp_path)
