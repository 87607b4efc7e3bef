"""Tests of the metrics that ask a trained model."""
