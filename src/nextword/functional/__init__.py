"""Pure tensor functions shared by two parts or more; they know nothing else of the library.

One loss is computed, from objective to gradient, without ever holding the scores (N, V) of all positions. An objective
(``objectives/likelihood.py``) asks ``head(context).log_likelihood(targets)``. ``NextToken.log_likelihood``
(``distribution/next_token.py``) takes the distribution apart: tensors with a row for each position, and weights that
all positions share. Then these files act, in this order: ``chunked_loss.py`` goes through the rows a chunk at a time,
forwards and at once backwards; ``products.py`` makes the scores of a chunk; ``vocab_shard.py`` knows which columns of
them this process holds; ``inplace.py`` writes over them, gradients too; ``copy_scores.py`` adds stored tokens with a
score each; ``weight_gradient.py`` gathers the gradient of the embedding (V, D). When autograd reaches the sum, it only
scales these gradients, then continues through the backbone. What the fast functions compute, said in one line of torch
each, is in ``textbook_forms.py``; a test holds every head to it.

Shape letters, one legend for the whole library: B sequences, T positions, N positions that count, D hidden width, V
vocabulary, K asked ids or parts, S stored entries, E source positions.
"""
