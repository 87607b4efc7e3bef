"""People judge texts: samples files to forms, and what judges hand back to a table.

In the order in which they act:

1. ``survey_settings.py`` has what a survey is to be, as its recipe says it.
2. ``make_survey.py`` reads the samples, lets a kind make items of them, hides who wrote what, adds checks, deals items
   to forms in balanced orders, and says which difference the planned survey can show.
3. ``kinds/`` has a file for each kind of survey.
4. ``outputs.py`` writes the survey for every platform, and the key outside of what judges receive.
5. ``read_answers.py`` reads what came back, and decides what counts.
6. ``statistics.py`` computes intervals over items and judges, the agreement of judges, and how measures go with them.
7. ``survey_table.py`` makes results of the answers.
"""

from __future__ import annotations

from nextword.evaluation.survey.make_survey import MadeSurvey as MadeSurvey
from nextword.evaluation.survey.make_survey import make_survey as make_survey
from nextword.evaluation.survey.survey_settings import SurveyConfig as SurveyConfig
from nextword.evaluation.survey.survey_table import survey_results as survey_results
