"""Every mode of generate, with what a head remembers, against a recomputation of the whole sequence."""
