"""The lowest layer: strict settings, specs, registries, plug-ins, and what modules were called before."""
