"""People judge texts: samples files to forms, and what judges hand back to a table.

``make_survey.py`` reads samples (``aligned_samples.py``), lets a kind (``kinds/``) make items of them, hides who wrote
what, adds checks (``attention_checks.py``), deals items to forms (``forms.py``,
``balanced_orders.py``) and writes them for every platform (``outputs/``). ``power.py`` says what the planned survey can
show. ``read_answers.py`` reads what came back, ``counted_answers.py`` decides what counts, and ``survey_table.py``
makes results of it with what ``statistics/`` computes.
"""

from __future__ import annotations

from nextword.evaluation.survey.make_survey import MadeSurvey as MadeSurvey
from nextword.evaluation.survey.make_survey import make_survey as make_survey
from nextword.evaluation.survey.survey_settings import SurveyConfig as SurveyConfig
from nextword.evaluation.survey.survey_table import survey_results as survey_results
