"""Likelihood of given texts under a model, in evaluation mode and without gradient."""
