"""One grammar reads and writes the specs of every kind of part."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings

from nextword.conditioning.conditioner import grammar as conditioners
from nextword.evaluation.metrics.metric import grammar as metrics
from nextword.heads.head import grammar as heads
from nextword.heads.input_states import MultiInputConfig
from nextword.heads.partitions import PartitionConfig
from nextword.objectives.objective import SequenceConfig
from nextword.objectives.objective import grammar as objectives
from nextword.settings.registry import Registry
from nextword.settings.specs import Grammar, Modifier, Modifiers, SpecSettings
from tests.helpers.drawn_settings import settings_of

SPECS = {
    "head": (heads, ["softmax", "softmax+cpr:20,100+mi:1x3", "mos:3,static+cepr:7", "f2:8,eq-token", "pg+mi"]),
    "objective": (objectives, ["mle:labels", "face:gpo,cp+seq:0.25,8x16", "histalign:released,inputs"]),
    "conditioner": (conditioners, ["bergpt:2,published", "dau:max", "prefix:4"]),
}


@pytest.mark.parametrize(("kind", "spec"), [(kind, spec) for kind, (_, specs) in SPECS.items() for spec in specs])
def test_specs_come_back(kind: str, spec: str) -> None:
    grammar: Grammar[Any] = SPECS[kind][0]
    config = grammar.parse(spec)
    assert grammar.write(config) == spec
    assert grammar.parse(spec.upper().replace("+", " + ")) == config
    assert grammar.parse({kind: spec}) == config
    assert grammar.parse(config.model_dump()) == config
    assert grammar.parse(config) is config


@pytest.mark.parametrize("kind", SPECS)
def test_every_part_comes_back_from_its_name_alone(kind: str) -> None:
    grammar: Grammar[Any] = SPECS[kind][0]
    for name in grammar.registry.names():
        config = grammar.parse(name)
        assert config.from_spec([]) == {}, "a name alone names no settings"
        assert grammar.parse(config.model_dump()) == config
        assert grammar.parse(grammar.write(config)) == config


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mos:3+mi:1x3+mi", "head spec 'mos:3+mi:1x3+mi': '+mi' is given twice; write it once"),
        (
            "softmax+c+e",
            "head spec 'softmax+c+e': '+e' is given beside '+c'; write both as one, as in 'softmax+ce'",
        ),
        (
            "softmax+r:20+c",
            "head spec 'softmax+r:20+c': '+c' is given beside '+r'; write both as one, as in 'softmax+cr:20'",
        ),
        (
            "f2+c",
            "head spec 'f2+c': 'f2' takes no '+c', which is for mos, softmax; it takes +mi or +mi:LAYERSxWINDOW, "
            "then norm or raw",
        ),
        (
            "mos:components=2.5+c+e",
            "head spec 'mos:components=2.5+c+e': components: must be a whole number (2.5 given)",
        ),
        ("cpr:5", "head 'cpr': must follow a head (alone given); write it as in 'softmax+cpr:20,100+mi'"),
        ({"heads": "mos"}, "head: missing; it names the head. Known: cache, "),
        (
            "softmax+rc:5+r:7",
            "head spec 'softmax+rc:5+r:7': '+r' is given beside '+rc'; write both as one, as in 'softmax+cr:5,7'",
        ),
        ({"head": "mos:3", "components": 3.0}, "head.components: must be a whole number (3.0 given)"),
        ({"head": "mos:5", "components": 3}, "head.components: given as 5 by 'mos:5' and as 3"),
        (7, "head: must be a spec such as 'softmax' or its settings (int given)"),
    ],
)
def test_faults_say_what_to_do(spec: Any, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  (the whole message is compared)
        heads.parse(spec)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("grammar", "spec", "expected"),
    [
        (heads, "cache:temperature=0.5,mode=cache_only", {"temperature": 0.5, "mode": "cache_only"}),
        (heads, "Cache:Temperature = 2", {"temperature": 2.0}),
        (heads, "mos:3,static,bias=false", {"components": 3, "gate": "static", "bias": False}),
        (heads, "mos:bias=false,3", {"components": 3, "bias": False}),
        (heads, "f2:8,counts=Runs/A.npz", {"classes": 8, "division": "eq-freq", "counts": "Runs/A.npz"}),
        (heads, 'f2:counts="a,b+c=d.npz"', {"counts": "a,b+c=d.npz"}),
        (heads, "pg:gate_bias=1e+2+mi", {"gate_bias": 100.0, "mi": MultiInputConfig()}),
        (heads, "softmax+mi:2x3,expansion=4", {"mi": MultiInputConfig(layers=2, window=3, expansion=4)}),
        (heads, "softmax+r:20,rerank_mode=add,5", {"partition": PartitionConfig(rerank=(5, 20), rerank_mode="add")}),
        (objectives, "histalign:paper,alpha=0.5", {"alpha": 0.5, "reduction": "pair_sum", "base": "mle"}),
        (objectives, "histalign:alpha=0.5,reduction=pair_sum", {"alpha": 0.5, "reduction": "pair_sum"}),
        (objectives, "unlikelihood:alpha=0.5+seq:rate=0.25,n=3", {"alpha": 0.5, "seq": SequenceConfig(rate=0.25, n=3)}),
        (objectives, "mle+seq:1e-05", {"seq": SequenceConfig(rate=1e-05)}),
        (conditioners, "bergpt:layers=[0,-1],tied=true", {"layers": [0, -1], "tied": True}),
        (metrics, "rouge:1,l,stemmer=false", {"kinds": ("1", "l"), "stemmer": False}),
        (metrics, "factcc:model=none", {"model": None}),
    ],
)  # fmt: skip
def test_every_setting_can_be_given_by_name(grammar: Grammar[Any], spec: str, expected: dict[str, Any]) -> None:
    config = grammar.parse(spec)
    assert {name: getattr(config, name) for name in expected} == expected
    assert grammar.parse(grammar.write(config)) == config
    assert grammar.parse(grammar.table(spec)) == config
    assert "=" not in grammar.title(config)


@pytest.mark.parametrize(
    ("grammar", "spec", "message"),
    [
        (
            objectives, "histalign:alhpa=1",
            "objective spec 'histalign:alhpa=1': alhpa: unknown key. Did you mean 'alpha'? Known: ",
        ),
        (
            heads, "cache:temperature=warm",
            "head spec 'cache:temperature=warm': temperature must be a number or 'fitted' ('warm' given).",
        ),
        (heads, "mos:components=2.5", "head spec 'mos:components=2.5': components must be a whole number (2.5 given)."),
        (heads, "cache:weight=", "head spec 'cache:weight=': weight must be a number or 'fitted' ('' given)."),
        (
            objectives, "histalign:paper,base=trime",
            "objective spec 'histalign:paper,base=trime': 'base' is given twice, by 'histalign:paper' and by its name",
        ),
        (heads, "mos:3,components=3", "head spec 'mos:3,components=3': 'components' is given twice, by 'mos:3' and "),
        (heads, "cache:weight=0,weight=1", "head spec 'cache:weight=0,weight=1': 'weight' is given twice"),
        (heads, "cache:head=mos", "head spec 'cache:head=mos': 'head' is given twice, by 'cache' and by its name"),
        (
            heads, "softmax+proj:bias=false",
            "head spec 'softmax+proj:bias=false': '+proj' has no settings ('bias' given)",
        ),
        (
            heads, "softmax+mi:2x3,window=4",
            "head spec 'softmax+mi:2x3,window=4': 'window' is given twice, by '+mi:2x3' and by its name",
        ),
        (
            heads, "softmax:mi={window=4}+mi",
            "head spec 'softmax:mi={window=4}+mi': 'mi' is given twice, by its name and by '+mi'",
        ),
        (
            heads, "softmax+mi:windw=4",
            "head spec 'softmax+mi:windw=4': mi.windw: unknown key. Did you mean 'window'? Known: ",
        ),
    ],
)  # fmt: skip
def test_faults_of_settings_by_name_say_what_to_do(grammar: Grammar[Any], spec: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  (the whole message is compared)
        grammar.parse(spec)
    assert str(refused.value).startswith(message)


PARTS = [(grammar, name) for grammar in (heads, objectives, conditioners, metrics) for name in grammar.registry.names()]


@pytest.mark.few(32)
@pytest.mark.parametrize(("grammar", "name"), PARTS, ids=[f"{g.registry.kind} {name}" for g, name in PARTS])
def test_any_settings_come_back(grammar: Grammar[Any], name: str) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
    @given(settings_of(grammar.registry.get(name).Config, {grammar.registry.kind: name}))
    def come_back(config: Any) -> None:
        spec = grammar.write(config)
        assert grammar.parse(spec) == config, spec
        assert grammar.write(grammar.parse(spec)) == spec

    come_back()


class Animal: ...


class CatSettings(SpecSettings):
    animal: Literal["cat"] = "cat"
    loud: bool = False


class DogSettings(SpecSettings):
    animal: Literal["dog"] = "dog"
    weight: float = 2.0

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        return {"weight": float(arguments[0])} if arguments else {}

    def arguments(self) -> list[str]:
        return [f"{self.weight:.1f}"]


class Loud(Modifier):
    field, usage, entries = "loud", "+loud", ()

    @staticmethod
    def parse(name: str, arguments: list[str]) -> bool:
        return True

    @staticmethod
    def write(value: bool) -> tuple[str, list[str]] | None:
        return ("loud", []) if value else None


def test_a_kind_of_its_own() -> None:
    registry, modifiers = Registry[type[Animal]]("animal", Animal), Modifiers()
    modifiers.register("loud", aliases=("shrill",))(Loud)
    registry.register("cat")(type("Cat", (Animal,), {"Config": CatSettings}))
    grammar = Grammar(registry, CatSettings, "cat", modifiers)
    assert grammar.parse("cat+shrill").loud
    assert grammar.write(grammar.parse("CAT+Loud")) == "cat+loud"
    with pytest.raises(ValueError, match="'laud'"):
        grammar.parse("cat+laud")


def test_an_argument_that_is_written_rounded_gives_way_to_the_setting_by_name() -> None:
    registry = Registry[type[Animal]]("animal", Animal)
    registry.register("dog")(type("Dog", (Animal,), {"Config": DogSettings}))
    grammar = Grammar(registry, DogSettings, "dog")
    assert grammar.write(DogSettings(weight=1.5)) == "dog:1.5"
    assert grammar.write(DogSettings(weight=1.25)) == "dog:weight=1.25"


def test_a_registry_takes_its_own_kind_only() -> None:
    registry = Registry[type[Animal]]("animal", Animal)
    with pytest.raises(ValueError, match="'stone'"):
        registry.register("stone")(type("Stone", (), {}))
    with pytest.raises(ValueError, match=r"head 'x': must extend nextword\.heads\.head\.Head"):
        heads.registry.register("x")(Animal)
    assert "x" not in heads.registry.names()


def test_a_part_has_the_name_that_its_settings_give_it() -> None:
    registry = Registry[type[Animal]]("animal", Animal)
    field = r'the field animal: Literal\["hound"\] = "hound" \(\'dog\' given\)'
    with pytest.raises(ValueError, match=rf"animal 'hound': its Config must have {field}"):
        registry.register("hound")(type("Hound", (Animal,), {"Config": DogSettings}))
    assert "hound" not in registry.names()
    with pytest.raises(ValueError, match="import MODULE"):
        registry.get("hound")


def test_a_kind_without_modifiers_says_so() -> None:
    registry = Registry[type[Animal]]("animal", Animal)
    registry.register("cat")(type("Cat", (Animal,), {"Config": CatSettings}))
    with pytest.raises(ValueError, match=r"'cat\+mi'.*\('\+mi' given"):
        Grammar(registry, CatSettings, "cat").parse("cat+mi")


def test_another_name_is_given_once() -> None:
    registry = Registry[type[Animal]]("animal", Animal)
    registry.register("cat", aliases=("tom",))(type("Cat", (Animal,), {}))
    for name, aliases, taken in (("dog", ("cat",), "cat"), ("dog", ("tom",), "tom"), ("tom", (), "tom")):
        with pytest.raises(ValueError, match=f"animal '{name}': '{taken}' is another name of 'cat' already"):
            registry.register(name, aliases=aliases)(type("Dog", (Animal,), {}))
    assert registry.names() == ("cat",)


def test_absent_parts_have_no_weights() -> None:
    from nextword.heads import Dimensions, build_head

    sizes = Dimensions(8, 8, 2, 20)
    assert not build_head(heads.parse("softmax"), sizes).state_dict()
    plain = set(build_head(heads.parse("softmax+proj"), sizes).state_dict())
    assert plain == {"project.weight", "project.bias"}
    full = set(build_head(heads.parse("softmax+cr:5+mi"), sizes.__class__(8, 8, 3, 20)).state_dict())
    assert {key.rpartition(".")[0] for key in full - plain} == {
        "inputs.merge", "partition.context", "partition.rerankers.0"
    }  # fmt: skip
