"""Reports: results as self-contained HTML pages and as tables for the terminal, made from records.

The code here formats the numbers of the records, and averages them over seeds if a method has several.
"""

from __future__ import annotations

from nextword.results.report.comparison.method_tables import leader as leader
from nextword.results.report.comparison.page import write_report as write_report
from nextword.results.report.comparison.terminal import results_table as results_table
from nextword.results.report.evaluation_page import evaluation_tables as evaluation_tables
from nextword.results.report.inspection_page import trace_page as trace_page
from nextword.results.report.reproduction_page import reproduced_table as reproduced_table
from nextword.results.report.reproduction_page import write_reproduced_tables as write_reproduced_tables
from nextword.results.report.score_terminal import group_meanings as group_meanings
from nextword.results.report.score_terminal import score_csv as score_csv
from nextword.results.report.score_terminal import score_tables as score_tables
from nextword.results.report.survey_page import survey_tables as survey_tables
from nextword.results.report.survey_page import write_survey_report as write_survey_report
from nextword.results.report.tables_markdown import claims_markdown as claims_markdown
from nextword.results.report.tables_markdown import tables_markdown as tables_markdown
