"""What objectives are made of; nothing is registered here."""
