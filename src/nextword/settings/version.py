"""The version of the library, which is written into saved models, results and datastores."""

__version__ = "0.2.0"
