"""Old names of modules and objects that were moved, for plug-ins and scripts written for earlier versions."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "checking.place_properties": "checking.position_properties",
    "checking.ways_of_reading": "checking.readers",
    "comparison": "experiments.comparison",
    "conditioning.distribution_adjustment": "conditioning.pooling",
    "conditioning.lm_head": "conditioning.pooling",
    "conditioning.parts": "conditioning",
    "config": "settings.config",
    "context": "heads.context",
    "corpora": "runtime.corpora",
    "datastore": "inference.datastore",
    "decoding": "inference.generation",
    "devices": "runtime.devices",
    "evaluation.judges.factcc": "evaluation.judges.entailment",
    "evaluation.judges.nli": "evaluation.judges.entailment",
    "evaluation.judges.sp": "evaluation.judges.sp_acc",
    "evaluation.judges.tapas": "evaluation.judges.entailment",
    "evaluation.judges.tapex": "evaluation.judges.entailment",
    "evaluation.metrics.bleu_logicnlg": "evaluation.metrics.bleu",
    "evaluation.metrics.next_word": "evaluation.metrics.accuracy",
    "evaluation.metrics.rank": "evaluation.metrics.accuracy",
    "evaluation.metrics.rep": "evaluation.metrics.repetition",
    "evaluation.metrics.self_bleu": "evaluation.metrics.diversity",
    "evaluation.metrics.seq_rep": "evaluation.metrics.repetition",
    "evaluation.metrics.token_repetition": "evaluation.metrics.repetition",
    "evaluation.metrics.uniq": "evaluation.metrics.distinct",
    "experiments.comparison.common_start": "experiments.comparison.initial_checkpoint",
    "experiments.comparison.progress": "runtime.progress",
    "experiments.comparison.recipe": "experiments.comparison.comparison_settings",
    "experiments.finetuning": "experiments.training",
    "experiments.finetuning.data_kinds": "experiments.training.starting_model",
    "experiments.reproduction.planning.meta_models": "experiments.reproduction.planning.experiment_work",
    "experiments.training.training_progress": "experiments.training.train_model",
    "finetuning": "experiments.training",
    "finetuning.data_kinds": "experiments.training.starting_model",
    "frequency": "functional.frequency",
    "functional.columns": "functional.vocab_shard",
    "functional.entries": "functional.copy_scores",
    "heads.parts": "heads",
    "heads.parts.dimensions": "heads.input_states",
    "heads.parts.partition": "heads.partitions",
    "inference.generation.batched_generation": "inference.generation.generator",
    "inference.scoring.calibration_results": "inference.scoring.calibrate",
    "inference.scoring.measurement.token_answers": "inference.scoring.measurement.model_passes",
    "inference.scoring.ngram_scores": "inference.datastore",
    "inference.scoring.target_likelihood": "inference.scoring.likelihood",
    "inference.scoring.text_memory_scores": "inference.datastore",
    "inspection": "inference.inspection",
    "judges": "evaluation.judges",
    "judges.parts": "evaluation.judges",
    "judges.parts.label_choice": "evaluation.judges.classifier",
    "memory": "model.head_cache",
    "metrics": "evaluation.metrics",
    "metrics.parts": "evaluation.metrics",
    "metrics.parts.groups": "evaluation.metrics.metric",
    "metrics.parts.intervals": "evaluation.metrics.statistics",
    "metrics.parts.paired_tests": "evaluation.metrics.statistics",
    "metrics.parts.statistic": "evaluation.metrics.statistics",
    "metrics.parts.units": "evaluation.metrics.tokens",
    "model.batching": "model.continuous_batching",
    "model.drafting": "model.speculative_decoding",
    "model.drafting.draft_length": "model.speculative_decoding.speculative_decoding",
    "model.drafting.drafted_loop": "model.speculative_decoding.speculative_loop",
    "model.drafting.drafting": "model.speculative_decoding.speculative_decoding",
    "model.drafting.step_inputs": "model.speculative_decoding.speculative_loop",
    "model.drafting.word_choice": "model.speculative_decoding.token_choice",
    "model_card": "model.card",
    "objectives.loss": "objectives.objective",
    "objectives.maximum_likelihood": "objectives.likelihood",
    "objectives.sequence_level_unlikelihood": "objectives.objective",
    "objectives.unlikelihood": "objectives.likelihood",
    "optional_libraries": "runtime.optional_libraries",
    "overrides": "settings.overrides",
    "plugins": "settings.plugins",
    "pretrained": "runtime.pretrained",
    "processes": "runtime.processes",
    "records": "results.records",
    "registry": "settings.registry",
    "report": "results.report",
    "reproduction": "experiments.reproduction",
    "results.records.claim": "runtime.resumable",
    "results.records.manifest": "runtime.resumable",
    "results.report.judge_page": "results.report.survey_page",
    "retrieval.ngram.recall": "retrieval.ngram.ngram_model",
    "retrieval.ngram.text_index": "retrieval.ngram.ngram_index",
    "retrieval.search": "retrieval.datastore.search",
    "retrieval.stored_keys": "retrieval.datastore.stored_keys",
    "scoring": "inference.scoring",
    "scoring.calibration_results": "inference.scoring.calibrate",
    "scoring.prompt_distributions": "inference.scoring.likelihood",
    "scoring.prompt_encoding": "inference.scoring.text_tokens",
    "scoring.remembered_text": "inference.scoring.long_text",
    "scoring.target_likelihood": "inference.scoring.likelihood",
    "serving.vllm.places_proposer": "serving.vllm.copy_head_proposer",
    "specs": "settings.specs",
    "survey": "evaluation.survey",
    "survey.outputs.write_survey": "evaluation.survey.outputs",
    "tasks": "experiments.tasks",
    "tasks.parts": "experiments.tasks",
    "tasks.parts.ambiguous.invented_stories": "experiments.tasks.ambiguous_prompts",
    "tasks.parts.ambiguous.lexicon": "experiments.tasks.ambiguous_words",
    "tasks.parts.ambiguous.relations_start": "experiments.tasks.ambiguous",
    "tasks.parts.bpe": "experiments.tasks.tokenizers",
    "tasks.parts.gpt2_start": "experiments.tasks.small_start",
    "tasks.parts.pair_samples": "experiments.tasks.pair_task",
    "tasks.parts.word_tokenizer": "experiments.tasks.tokenizers",
    "text_memory": "retrieval.ngram",
    "training": "experiments.training",
    "weights": "runtime.weights",
    "workers": "runtime.workers",
}
"""New locations by old module name, both without ``nextword.``. For a submodule the longest matching name counts."""

RENAMED = {
    "CommonStart": "experiments.comparison.initial_checkpoint.InitialCheckpoint",
    "PlacesProposer": "serving.vllm.copy_head_proposer.CopyHeadProposer",
    "ScoredSpan": "inference.scoring.likelihood.TargetSpan",
    "TokenStream": "experiments.tasks.window_likelihood.TokenStream",
    "TopPlaces": "inference.scoring.token_facts.TopPositions",
    "Change": "distribution.EditMode",
    "ComparisonWatcher": "runtime.progress.Watcher",
    "DraftedLoop": "model.speculative_decoding.speculative_loop.SpeculativeLoop",
    "DraftedRun": "model.speculative_decoding.speculative_loop.SpeculativeRun",
    "Drafting": "model.speculative_decoding.speculative_decoding.SpeculativeDecoding",
    "Edit": "distribution.LogitEdit",
    "Entries": "distribution.CopyScores",
    "Factorized": "distribution.FactorizedDistribution",
    "Interpolated": "distribution.PointerMixture",
    "JudgedDraft": "model.speculative_decoding.speculative_decoding.DraftOutcome",
    "Keeper": "heads.CachedModule",
    "OnMemory": "distribution.CacheDistribution",
    "OnWords": "distribution.TokenLogitEdit",
    "Scores": "distribution.SoftmaxDistribution",
    **{name: f"experiments.tasks.writing.{name}" for name in ("ContinuationConfig", "Texts", "WritingConfig")},
    "WordChoice": "model.speculative_decoding.token_choice.TokenChoice",
    "drafting_of": "model.speculative_decoding.speculative_decoding.speculative_decoding_of",
    "measuring": "model.training_modes.inference_mode_of",
    "OverHeadConfig": "heads.wrapper_head.WrapperHeadConfig",
    "RecallingHead": "heads.ngram.NgramHead",
    "SilentWatcher": "runtime.progress.Watcher",
    "TextIndex": "retrieval.ngram.NgramIndex",
    "TextManifest": "retrieval.ngram.NgramManifest",
    "TextMemory": "retrieval.ngram.NgramModel",
    "build_text_memory": "retrieval.ngram.build_ngram_index",
    "recalling": "heads.ngram.with_ngrams",
}
"""New locations of documented objects, without ``nextword.``, by old name."""

_PACKAGE = __name__.partition(".")[0]


def old_names(module: str, calls: int = 0) -> Callable[[str], Any]:
    """Makes a ``__getattr__`` for ``module``, which returns a renamed object for its old name, with a warning.

    ``calls`` is the number of functions between the user's code and this ``__getattr__``.
    """

    def get(name: str) -> Any:
        if name not in RENAMED:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        home, _, new = f"{_PACKAGE}.{RENAMED[name]}".rpartition(".")
        warnings.warn(f"{name} is {home}.{new} now", FutureWarning, stacklevel=2 + calls)
        return getattr(importlib.import_module(home), new)

    return get


def keep_old_methods(kind: type, renamed: Mapping[str, str]) -> None:
    """Lets a plug-in's class define methods by their old names, or call them on its base class.

    Args:
        kind: The plug-in's class; call this function in ``__init_subclass__`` of the base class.
        renamed: A mapping from old to current names of the base class's methods.
    """
    for old, new in renamed.items():
        own = vars(kind)
        if old in own and new not in own:
            warnings.warn(f"{kind.__name__}.{old} is {new} now", FutureWarning, stacklevel=4)  # skips ABCMeta's frame
            setattr(kind, new, own[old])
        elif new in own:
            setattr(kind, old, own[new])


class _Moved(ModuleType):
    """A module object with an old name and the attributes of the new module."""

    def __getattr__(self, name: str) -> Any:
        assert self.__spec__ is not None
        assert self.__spec__.origin is not None
        today = importlib.import_module(self.__spec__.origin)
        renamed = name in RENAMED and name not in vars(today)
        return old_names(self.__name__, calls=1)(name) if renamed else getattr(today, name)


class _OldModules:
    """An import hook that finds modules by their old names.

    It does not use the base classes of ``importlib.abc``, because importing them takes as long as the rest of
    ``import nextword``.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = moved_to(fullname)
        # this object has the methods of a loader
        return None if new is None else ModuleSpec(fullname, self, origin=new, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        importlib.import_module(spec.origin)
        if spec.name.count(".") == 1:  # not for submodules, which are imported after their package
            warnings.warn(f"{spec.name} is {spec.origin} now", FutureWarning, stacklevel=2)
        module = _Moved(spec.name)
        module.__path__ = []  # not the path of the new package, from which files would be loaded a second time
        return module

    def exec_module(self, module: ModuleType) -> None: ...  # the module has no content of its own


def moved_to(name: str) -> str | None:
    """The current name of a module. None if the module was not moved.

    >>> moved_to("nextword.metrics.bleu")
    'nextword.evaluation.metrics.bleu'
    """
    package, _, old = name.partition(".")
    rest = ""
    while package == _PACKAGE and old:  # longest name first: the module itself, then the packages that contain it
        if old in MOVED:
            return f"{_PACKAGE}.{MOVED[old]}{rest}"
        old, _, last = old.rpartition(".")
        rest = f".{last}{rest}"
    return None


def install_old_imports() -> None:
    """Installs the import hook for old names."""
    if not any(isinstance(finder, _OldModules) for finder in sys.meta_path):
        sys.meta_path.append(_OldModules())  # at the end, so that it gets only names that are not found otherwise
