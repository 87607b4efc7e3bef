"""Scorers and models with one planted mistake each, and the right ones that they would be without it."""

from __future__ import annotations

from tests.helpers.audit_zoo import planted_batches, planted_models, planted_sums, planted_texts
from tests.helpers.audit_zoo.planting import FAULTS, TWINS, Specimen

__all__ = ["FAULTS", "TWINS", "Specimen", "planted_batches", "planted_models", "planted_sums", "planted_texts"]
