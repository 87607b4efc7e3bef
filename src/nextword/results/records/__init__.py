"""Records of results: plain numbers and text, written by runs and read by reports.

Every class is a frozen, strict pydantic model that rejects unknown keys. The error for an invalid file names the wrong
key. Likelihoods are in nats per token unless a unit says otherwise.
"""

from __future__ import annotations

from nextword.results.records.comparison_results import WITH_PROMPT as WITH_PROMPT
from nextword.results.records.comparison_results import Cost as Cost
from nextword.results.records.comparison_results import CurvePoint as CurvePoint
from nextword.results.records.comparison_results import Evaluation as Evaluation
from nextword.results.records.comparison_results import ExamplePrediction as ExamplePrediction
from nextword.results.records.comparison_results import FailedRun as FailedRun
from nextword.results.records.comparison_results import GridSearch as GridSearch
from nextword.results.records.comparison_results import Results as Results
from nextword.results.records.comparison_results import RunRecord as RunRecord
from nextword.results.records.comparison_results import Span as Span
from nextword.results.records.comparison_results import TopWord as TopWord
from nextword.results.records.comparison_results import TriedSettings as TriedSettings
from nextword.results.records.comparison_results import WrittenExample as WrittenExample
from nextword.results.records.comparison_results import WrittenText as WrittenText
from nextword.results.records.evaluation_results import Duel as Duel
from nextword.results.records.evaluation_results import EvaluationResults as EvaluationResults
from nextword.results.records.evaluation_results import PairRecord as PairRecord
from nextword.results.records.evaluation_results import Place as Place
from nextword.results.records.evaluation_results import SampleFile as SampleFile
from nextword.results.records.evaluation_results import SystemRecord as SystemRecord
from nextword.results.records.evaluation_results import Wins as Wins
from nextword.results.records.known_measures import known_measure as known_measure
from nextword.results.records.known_measures import measures_of as measures_of
from nextword.results.records.measured_values import Environment as Environment
from nextword.results.records.measured_values import Goal as Goal
from nextword.results.records.measured_values import Measure as Measure
from nextword.results.records.measured_values import MetricValue as MetricValue
from nextword.results.records.score_results import BreakdownMeaning as BreakdownMeaning
from nextword.results.records.score_results import GroupScore as GroupScore
from nextword.results.records.score_results import ModelScore as ModelScore
from nextword.results.records.score_results import ScoreDifference as ScoreDifference
from nextword.results.records.score_results import ScoreResults as ScoreResults
from nextword.runtime.files import SCHEMA_VERSION as SCHEMA_VERSION
from nextword.runtime.files import DiskFullError as DiskFullError
from nextword.runtime.files import Record as Record
from nextword.runtime.files import disk_full_explained as disk_full_explained
from nextword.runtime.files import full_disk as full_disk
from nextword.runtime.files import kind_of as kind_of
from nextword.runtime.files import write_atomically as write_atomically
from nextword.runtime.resumable import LOCK_FILES as LOCK_FILES
from nextword.runtime.resumable import locked as locked
