"""The audit, with which ``nextword.check`` tests scorers and models without a nextword head."""
