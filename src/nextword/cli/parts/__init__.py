"""What verbs show while they work; no verb is here."""
