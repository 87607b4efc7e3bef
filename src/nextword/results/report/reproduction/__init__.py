"""The papers' tables with our numbers beside the printed ones: as a page, in the terminal and in Markdown."""
