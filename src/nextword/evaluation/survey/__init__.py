"""Human evaluation: makes forms for judges from samples files, and results from the judges' answers."""

from __future__ import annotations

from nextword.evaluation.survey.make_survey import MadeSurvey as MadeSurvey
from nextword.evaluation.survey.make_survey import make_survey as make_survey
from nextword.evaluation.survey.survey_settings import SurveyConfig as SurveyConfig
from nextword.evaluation.survey.survey_table import survey_results as survey_results
