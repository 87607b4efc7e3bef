"""The page that looks at one prompt of a comparison: its first method against the one that is ahead, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nextword.experiments.comparison.comparison_settings import CompareConfig
    from nextword.results.records import Results


def write_prompt_page(config: CompareConfig, results: Results, out: Path) -> Path | None:
    """Writes the page beside the report, and links it there.

    Args:
        config: What was compared.
        results: What came out, with prompts to read among its examples.
        out: The comparison's folder, which still has the models.

    Returns:
        The page; None where there is no prompt, no second method or no saved model of one.
    """
    from nextword.experiments.comparison.folder import ComparisonFolder
    from nextword.inference.inspection.trace_example import trace
    from nextword.inference.scoring.opened_model import open_model
    from nextword.results.records import write_atomically
    from nextword.results.report import leader, trace_page, write_report
    from nextword.results.report.comparison.page import INSIDE

    prompts = [example for run in results.runs for example in run.evaluation.examples]
    first, best = config.methods[0], leader(results)
    second = next((method for method in config.methods if method.title == best and method is not first), None)
    if not prompts or second is None:
        return None
    folder = ComparisonFolder(out)
    models = {method.title: folder.trained(method, config.seeds[0]) / "model" for method in (first, second)}
    if not all(model.is_dir() for model in models.values()):
        return None
    # the methods learned what follows the prompt, so the prompt is read and not predicted
    prompt, word = prompts[0].prompt, f" {prompts[0].expected[-1]}"
    traces = [trace(open_model(model, name=name), prompt=prompt, text=word) for name, model in models.items()]
    page = out / INSIDE
    write_atomically(page, trace_page(*traces))
    write_report(results, folder.report)
    return page
