"""What documents imported before the move into districts is there under its old name, which says the new one."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from nextword.settings.old_modules import RENAMED, moved_to

SHOWN = """
from nextword.conditioning.parts.pooling import PooledConditioner, PooledConfig
from nextword.config import Settings
from nextword.context import Context
from nextword.datastore import grow, remember_recent
from nextword.datastore import tuned_weight
from nextword.distribution import Add, NextToken, OnWords, Scores, WordScores
from nextword.distribution import NextToken, Scores
from nextword.distribution import Scores
from nextword.functional.padding import IGNORED_LABEL
from nextword.heads import Dimensions, Head, HeadConfig, past_words, registry
from nextword.heads import Dimensions, Head, HeadConfig, registry
from nextword.heads import Head, HeadConfig
from nextword.heads import Head, HeadConfig, registry
from nextword.heads import parse_head
from nextword.heads import registry as heads
from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.ngram import recalling
from nextword.heads.parts.dimensions import Dimensions
from nextword.heads.parts.input_states import MultiInputConfig
from nextword.judges.coherence import row_cosines
from nextword.judges.dae import arcs_of
from nextword.judges.entities import entity_precision, found_in
from nextword.judges.mauve import MauveConfig, mauve_of
from nextword.judges.parts.label_choice import consistent_label
from nextword.judges.parts.sentences import sentences_of
from nextword.judges.parts.tables import row_form, sentence_form
from nextword.judges.parts.tables import tapex_form
from nextword.judges.sp import find_parser, verdict
from nextword.judges.tapas import TapasConfig
from nextword import Drafting
from nextword.inference.generation.strategies import WritingConfig
from nextword.inference.scoring.target_likelihood import TokenPair
from nextword.inference.scoring.text_memory_scores import fit_to_texts
from nextword.metrics import Sample, Table
from nextword.metrics import Table
from nextword.metrics.accuracy import acc_at_k
from nextword.metrics.bleu import bleu
from nextword.metrics.bleu_logicnlg import bleu_logicnlg
from nextword.metrics.cider import cider_d
from nextword.metrics.copying import CopyingSum
from nextword.metrics.distinct import distinct
from nextword.metrics.diversity import diversity_mean, diversity_product
from nextword.metrics.frequency_groups import frequency_groups, tokens_per_group
from nextword.metrics.likelihood import LikelihoodSum
from nextword.metrics.metric import Metric, MetricConfig, Score, Setup, registry
from nextword.metrics.ms_jaccard import ms_jaccard
from nextword.metrics.next_word import among_first
from nextword.metrics.parts import groups
from nextword.metrics.parts.intervals import wilson
from nextword.metrics.parts.ngrams import TokenTexts
from nextword.metrics.parts.sample import Sample
from nextword.metrics.rank import numerical_rank, singular_values
from nextword.metrics.rep import copies_at_end, ends_in_loop
from nextword.metrics.rouge import rouge
from nextword.metrics.self_bleu import self_bleu
from nextword.metrics.seq_rep import seq_rep
from nextword.metrics.token_repetition import steps_back
from nextword.metrics.topics import Topics, jensen_shannon
from nextword.metrics.unigram_kl import unigram_kl
from nextword.metrics.uniq import DistinctTokens
from nextword.metrics.zipf import zipf_coefficient
from nextword.model.drafting.draft_length import FixedLength, LearnedLength
from nextword.model.drafting.drafted_loop import DraftedLoop, DraftedRun
from nextword.model.drafting.drafter import Draft, Drafter, KnownText, CopyHeadDrafter, drafters
from nextword.model.drafting.drafting import Drafting, JudgedDraft, drafters, drafting_of
from nextword.model.drafting.word_choice import RandomNumbers, RedrawProcessor, WordChoice
from nextword.model.saving import save_model_folder
from nextword.model.training_modes import measuring
from nextword.model_card import CardData, CardFacts, CardResult
from nextword.pretrained import from_pretrained
from nextword.pretrained import token_label
from nextword.records import Evaluation, MetricValue
from nextword.records import EvaluationResults
from nextword.records import Measure
from nextword.records import MetricValue
from nextword.records import Results
from nextword.records.reproduced_table import ReproducedTable
from nextword.records.survey_files import ItemAnswers, JudgeAnswers, Survey, SurveyItem, SurveyKey, UnitAnswers
from nextword.report import claims_markdown, reproduced_table, write_reproduced_tables
from nextword.report import write_report
from nextword.scoring.example_encoding import Example
from nextword.scoring.opened_model import open_model
from nextword.scoring.prompt_distributions import ask
from nextword.scoring.prompt_encoding import encode_answer, encode_prompt
from nextword.scoring.remembered_text import remember
from nextword.scoring.word_probes import answers, read_probes
from nextword.survey import make_survey, survey_results
from nextword.survey.outputs.write_survey import write_survey
from nextword.tasks import Data, Measures, Task, registry
from nextword.tasks import registry
from nextword.tasks.ambiguous import Ambiguous
from nextword.tasks.parts.ambiguous.invented_stories import documents
from nextword.tasks.parts.ambiguous.lexicon import embedded
from nextword.tasks.parts.bpe import trained_tokenizer
from nextword.tasks.parts.small_start import SmallStart
from nextword.tasks.parts.word_tokenizer import word_tokenizer
from nextword.text_memory import Document, MatchWeights, TextIndex, TextMemory, build_text_memory, recalling
from nextword.training.collator import Auxiliary, RightPadding
from nextword.training.sharding import shard
from nextword.training.sharding import share_vocabulary
from nextword.retrieval.ngram import MatchWeights, TextIndex, TextMemory, build_text_memory
from nextword.retrieval.ngram.text_index import TextIndex
"""
"""Every import in those documents."""


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("line", SHOWN.split("\n")[1:-1])
def test_what_documents_showed_is_imported(line: str) -> None:
    found: dict[str, object] = {}
    exec(line, found)
    assert None not in found.values()


def test_an_old_module_has_what_is_there_today() -> None:
    import nextword.evaluation.metrics

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import nextword.metrics
        from nextword.metrics.bleu import bleu
    assert nextword.metrics.registry is nextword.evaluation.metrics.registry  # type: ignore[attr-defined]
    assert bleu is nextword.evaluation.metrics.bleu.bleu  # type: ignore[attr-defined]


def test_the_new_name_is_said_once() -> None:
    code = "from nextword.distribution import Scores; import nextword.metrics.bleu, nextword.metrics"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert said.count("nextword.metrics is nextword.evaluation.metrics now") == 1
    assert "Scores is nextword.distribution.SoftmaxDistribution now" in said


def test_speculative_decoding_has_its_old_names() -> None:
    import nextword
    from nextword.model.speculative_decoding.drafter import Draft, KnownText
    from nextword.model.speculative_decoding.speculative_decoding import DraftOutcome

    with pytest.warns(FutureWarning, match="speculative_decoding.SpeculativeDecoding now"):
        old = nextword.Drafting("prompt")
    assert type(old) is nextword.SpeculativeDecoding
    assert (old.words, old.words_a_pass, old.judged) == (old.tokens, old.tokens_per_pass, old.verified)
    outcome = DraftOutcome(0, 0, (3, 4), 1, None)
    assert (Draft([3], "known").words, KnownText([1, 2]).words, outcome.words) == ([3], [1, 2], (3, 4))


def test_what_became_of_a_module_goes_before_what_became_of_its_folder() -> None:
    assert moved_to("nextword.judges.parts.label_choice") == "nextword.evaluation.judges.classifier"
    assert moved_to("nextword.judges.parts.sentences") == "nextword.evaluation.judges.sentences"
    assert moved_to("nextword.heads.softmax") is None
    assert set(RENAMED).isdisjoint({"NextToken", "Head"})


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        __import__("nextword.odds")
    with pytest.raises(ImportError, match="Sores"):
        exec("from nextword.distribution import Sores")


def test_methods_of_plug_ins_by_their_old_names() -> None:
    from nextword.heads.softmax import SoftmaxHead
    from nextword.heads.wrapper_head import WrapperHead

    called = []
    with pytest.warns(FutureWarning, match="init_from_backbone"):

        class Old(SoftmaxHead):
            def begin(self, context_of: object) -> None:
                super().begin(context_of)  # type: ignore[misc]
                called.append("begin")

    with pytest.warns(FutureWarning, match="validate_backbone"):

        class OldWrapper(WrapperHead):
            def forward(self, context: object, mode: str | None = None) -> object:
                raise NotImplementedError

            def prove(self, context_of: object, weights_of: object) -> None:
                called.append("prove")

    class New(SoftmaxHead):
        def init_from_backbone(self, context_of: object) -> None:
            called.append("new")

    head = Old.__new__(Old)
    head.init_from_backbone(lambda ids: None)  # type: ignore[arg-type, return-value]
    OldWrapper.__new__(OldWrapper).validate_backbone(None, None)  # type: ignore[arg-type]
    New.__new__(New).begin(None)  # type: ignore[attr-defined]
    assert called == ["begin", "prove", "new"]


@pytest.mark.parametrize("shown", ["import nextword; nextword.Drafting", "from nextword.text_memory import TextMemory"])
def test_a_warning_names_the_line_that_is_to_change(shown: str) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(compile(shown, "<mine>", "exec"), {})
    named = [one for one in seen if issubclass(one.category, FutureWarning)]
    assert named
    assert {one.filename for one in named} == {"<mine>"}
