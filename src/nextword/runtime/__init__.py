"""The ground: the machine. Devices, processes, files, locks, pretrained models, texts in files, optional libraries."""
