"""Metrics: pure functions over arrays. They know no model; each states its formula, unit and source."""
