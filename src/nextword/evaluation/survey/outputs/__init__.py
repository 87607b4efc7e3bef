"""The same items for every platform: a page, Mechanical Turk, Label Studio, Prolific."""
