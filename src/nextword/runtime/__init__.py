"""Access to devices, processes, files, locks, pretrained models, texts in files, and optional libraries."""
