"""``python -m nextword`` is the command line."""

from nextword.cli import app

app()
