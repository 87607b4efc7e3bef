"""What tasks are made of; nothing is registered here."""
