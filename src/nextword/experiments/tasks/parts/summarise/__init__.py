"""Private to task ``summarise``: settings of its texts, documents that its start is trained on."""
