"""The version of the library, which is written into saved models, records and stores."""

__version__ = "0.2.0"
