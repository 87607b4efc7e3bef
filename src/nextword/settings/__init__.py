"""The ground: strict settings, specs, registries, plug-ins, and what settings were called before."""
