"""What verbs share: options in groups, errors as one line, progress on a terminal. No verb is here."""
