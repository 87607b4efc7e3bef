"""Running a model: scoring of texts, generation, inspection of single tokens, datastores of its states."""
