"""The lowest layer: strict settings, specs, registries, plug-ins, and old names of modules."""
