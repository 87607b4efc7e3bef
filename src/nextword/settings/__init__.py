"""The ground: strict settings, specs, registries and plug-ins, what messages call a setting, and modules by their old names."""
