"""The page of a server: a prompt goes on, token by token."""
