"""A part of each kind, for tests of plug-ins. Importing the package registers all of them."""

from dummy_parts import models, shouting, small  # noqa: F401
