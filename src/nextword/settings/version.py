"""The version of the library, which saved models, records and stores carry."""

__version__ = "0.2.0"
