"""From a recipe to finished, comparable runs: what ``transformers.Trainer`` does not do itself."""
