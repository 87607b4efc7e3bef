"""Which metrics are measured: those asked for, or all that can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nextword.evaluation.evaluation_settings import ALL
from nextword.evaluation.metrics.metric import Metric, MetricConfig, parse_metric, registry
from nextword.evaluation.metrics.parts.sample import Sample, renaming
from nextword.runtime import optional_libraries as extras

EITHER = {
    "tokens": ("token_ids", "text"),
    "prompt_tokens": ("prompt_token_ids", "prompt"),
    "reference_tokens": ("reference_token_ids", "references"),
    "predictions": ("target_ranks", "predicted_token_ids"),
}
"""Needs that one of two fields meets."""


def lacking(metric: type[Metric], sample: Sample) -> list[str]:
    """What the metric needs and the sample has not, in words."""
    needs = [EITHER.get(need, (need,)) for need in metric.needs]
    return [" or ".join(either) for either in needs if not any(_has(sample, name) for name in either)]


def _has(sample: Sample, field: str) -> bool:
    value = getattr(sample, field)
    return bool(value) if field in ("references", "reference_token_ids") else value is not None


def not_installed(metric: type[Metric]) -> str | None:
    """What the metric lacks, and how to install it; None where nothing is."""
    absent = extras.missing(metric.packages)
    return f"needs {', '.join(absent)}, not installed here ({extras.install('metrics')})" if absent else None


def chosen(
    asked: Sequence[str | dict[str, Any]], firsts: Sequence[Sample]
) -> tuple[list[MetricConfig], dict[str, str]]:
    """The metrics to measure, and those that "all" leaves out, with the reason.

    Args:
        asked: Specs, settings in full, or "all".
        firsts: The first sample of every file, which show what there is.

    Raises:
        ValueError: Unknown names or settings, the same metric twice, one asked for by name that cannot be measured, or
            nothing to measure at all.
    """
    configs: dict[str, MetricConfig] = {}
    for one in asked:
        if one == ALL:
            continue
        config = parse_metric(one)
        if config.metric in configs:
            raise ValueError(f"metric '{config.metric}' is asked for twice; write its settings in one")
        _require(config.metric, firsts)
        configs[config.metric] = config
    left_out: dict[str, str] = {}
    if ALL in asked:
        for name in registry.names():
            if name not in configs:
                reason = _why_not(registry.get(name), firsts)
                if reason is None:
                    configs[name] = parse_metric(name)
                else:
                    left_out[name] = reason
    if not configs:
        raise ValueError("\n".join(dict.fromkeys(_nothing(sample) for sample in firsts)))
    return list(configs.values()), left_out


def _nothing(sample: Sample) -> str:
    """What to do about samples that no metric can read."""
    has = [field for field in type(sample).model_fields if _has(sample, field)]
    others = [key for key, value in (sample.model_extra or {}).items() if isinstance(value, str)]
    null = [f"'{name}' is null" for name in sorted(sample.model_fields_set) if getattr(sample, name) is None]
    there = ", ".join(sorted(set(has) | set(sample.model_extra or ()))) or "no key with a value"
    way = (
        f" If '{others[0]}' is what the system wrote: {renaming('text', others[0])}."
        if others
        else f" What a system wrote is read from 'text', or from the key that {renaming('text', 'KEY')} names."
    )
    return f"{sample.place}: nothing to measure: it has {there}{''.join(f', and {one}' for one in null)}.{way}"


def _require(name: str, firsts: Sequence[Sample]) -> None:
    metric = registry.get(name)
    lack = not_installed(metric)
    if lack is not None:
        raise ValueError(f"{name} {lack}")
    for sample in firsts:
        for field in lacking(metric, sample):
            sample.need(field.rpartition(" or ")[2], name)


def _why_not(metric: type[Metric], firsts: Sequence[Sample]) -> str | None:
    for sample in firsts:
        fields = lacking(metric, sample)
        if fields:
            return f"no {' and no '.join(fields)} in {sample.place}"
    return not_installed(metric) or metric.on_request()
