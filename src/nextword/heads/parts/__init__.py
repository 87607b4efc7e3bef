"""What heads are made of: input states, embeddings of places, gates, partitions, the grammar of their specs."""
