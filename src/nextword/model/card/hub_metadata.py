"""The block at the top of a model card, in YAML: what the Hub filters, links and ranks models by."""

from __future__ import annotations

from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from nextword.model.card.card_facts import CardFacts, CardResult, hub_name


def hub_metadata(config: Any, facts: CardFacts, title: str) -> str:
    """The block without the lines around it.

    Args:
        config: Configuration of a model of ours.
        facts: What is known beside it.
        title: The model's name.
    """
    parts = (config.head["head"], config.objective["objective"], (config.conditioner or {}).get("conditioner"))
    task = "text2text-generation" if config.is_encoder_decoder else "text-generation"
    return ModelCardData(
        base_model=hub_name(facts.base_model or config.text_config.name_or_path),
        datasets=[name for data in facts.data if (name := hub_name(data.hub_name))] or None,
        eval_results=[_evaluation(result, task) for result in facts.results] or None,
        language=list(facts.language) or None,
        library_name="transformers",  # its Auto classes load the model, and the Hub shows their lines
        license=facts.license,
        model_name=title if facts.results else None,
        pipeline_tag=task,
        tags=["nextword", *(part for part in parts if part is not None)],
    ).to_yaml()


def _evaluation(result: CardResult, task: str) -> EvalResult:
    return EvalResult(
        task_type=task,
        dataset_type=result.data.hub_name or result.data.name,
        dataset_name=result.data.name,
        dataset_split=result.split,
        metric_type=result.metric,
        metric_name=result.title or result.metric,
        metric_value=result.measured.value,
    )
