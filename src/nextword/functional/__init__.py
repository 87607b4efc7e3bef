"""Tensor functions used by several packages. Only ``frequency``, the token counts, imports other parts of the library.

A loss is computed, from objective to gradient, without storing the scores (N, V) of all positions. An objective
(``objectives/likelihood.py``) calls ``head(context).log_likelihood(targets)``. ``NextToken.log_likelihood``
(``distribution/next_token.py``) splits the distribution into tensors with one row per position and weights shared by
all positions. It uses these files of this package, in this order: ``chunked_loss.py`` runs each chunk of rows
forward and immediately backward; ``products.py`` computes the scores of a chunk; ``vocab_shard.py`` defines which
columns this process has; ``inplace.py`` overwrites the scores, also with gradients; ``copy_scores.py`` adds the scores
of stored tokens; ``weight_gradient.py`` accumulates the gradient of the embedding (V, D). When autograd reaches the
sum, it only scales these gradients, then continues through the backbone. ``textbook_forms.py`` has plain forms of these
functions; a test compares the loss of every head with the loss from the plain forms.

Letters of shapes in the whole library: B sequences, T positions, N positions whose predictions are needed, D hidden
width, V vocabulary size, K given ids or components, S stored entries, E source positions.
"""
