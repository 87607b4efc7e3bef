"""Pure tensor functions shared by two parts or more; they know nothing else of the library.

How one loss is computed, from objective to gradient, without ever holding the scores (N, V) of all positions:

 1. An objective (``objectives/maximum_likelihood.py``) asks ``head(context).log_likelihood(targets)``.
 2. ``NextToken.log_likelihood`` (``distribution/next_token.py``) takes the distribution apart: tensors with a row for
    each position, and weights that all positions share. ``chunked/budget.py`` cuts the rows into chunks.
 3. ``chunked/chunked_loss.py`` goes through the chunks, forwards and at once backwards. It makes a ``SinglePass``
    (``chunked/weight_gradient.py``), which is passed down to everything that follows.
 4. Scores of a chunk are products with the output embedding: ``products/dense.py`` (all tokens),
    ``products/picked_rows.py`` (few tokens), ``products/grouped_rows.py`` (the tokens of each class).
 5. ``chunked/inplace.py`` writes the scores of partitions over them (``overwrite_``), then takes the softmax where it
    is asked (``softmax_at_``); ``stored_entries.py`` adds stored tokens. Now the chunk's log-likelihood is known.
 6. The chunk's backward pass follows at once: gradients are written over the scores, those of the states go to their
    rows, that of the embedding (V, D) goes to its ``GradientCollector`` as two factors, which are multiplied when they
    outgrow their product. The chunk is dropped.
 7. When autograd reaches the sum, it only scales these gradients, then goes on through the backbone.
    ``chunked/deferred.py`` holds the factors of the embedding's gradient back until then, and multiplies them last.

Scores may lie in several processes, each with the columns of its own tokens. Whoever sums over a row or picks tokens of
it asks the ``Columns`` (``score_columns.py``, ``shared_columns.py``), and everything else stays as it is.

``chunked/textbook_forms.py`` says what each of these functions computes in one line of torch; a test holds every head
to it. What has an answer at each position (``log_prob``, ``entropy``) goes through ``chunked/recompute.py`` instead.

Shape letters, one legend for the whole library: B sequences, T positions, N positions that count, D hidden width,
V vocabulary, K asked ids or parts, S stored entries, E source positions.
"""
