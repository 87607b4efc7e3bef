"""Strict settings, specs, registries, plug-ins, and old names of modules."""
