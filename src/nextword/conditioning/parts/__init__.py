"""What conditioners are made of: the encoder, its texts, pooling, the decoder's layers, the grammar of their specs."""
