"""Pure tensor functions shared by two parts or more; they know nothing else of the library.

One loss is computed, from objective to gradient, without ever holding the scores (N, V) of all positions. An objective
(``objectives/maximum_likelihood.py``) asks ``head(context).log_likelihood(targets)``. ``NextToken.log_likelihood``
(``distribution/next_token.py``) takes the distribution apart: tensors with a row for each position, and weights that
all positions share. Then these files act, in this order:

 1. ``chunked_loss.py`` cuts the rows into chunks that fit a memory budget, and goes through them, forwards and at once
    backwards; each chunk's gradients are written over its scores, and the chunk is dropped.
 2. ``products.py`` makes the scores of a chunk, products of states with the output embedding: of all tokens, of few
    tokens, or of the tokens of each class.
 3. ``columns.py`` says which columns of the scores this process holds: whoever sums over a row or picks tokens of it
    asks the ``VocabShard``, and nothing else knows of shared scores.
 4. ``inplace.py`` writes the scores of partitions over them (``overwrite_``) and takes the softmax where it is asked
    (``softmax_at_``), in the memory of the scores; what has an answer at each position (``log_prob``, ``entropy``) it
    computes again in the backward pass.
 5. ``entries.py`` adds stored tokens with a score each, retrieved ones among them, and the distinct words of a text.
 6. ``weight_gradient.py`` gathers the gradient of the embedding (V, D) as two factors in a ``GradientCollector``,
    multiplies them when they outgrow their product, and holds them back until the rest of the backward pass is done
    where a ``FusedBackward`` allows it.

When autograd reaches the sum, it only scales these gradients, then goes on through the backbone. The other files serve
whoever asks:

 7. ``probability.py`` has sums of probabilities in log space, the largest of many numbers, truncation, drawing by a
    given number, and the fit of a softmax to distributions.
 8. ``padding.py`` makes one tensor of rows of different lengths, put together at their beginnings or at their ends.
 9. ``keys_in_place.py`` multiplies queries with keys that stay where they lie, read a piece at a time.
10. ``frequency/`` counts tokens, and makes classes of them.
11. ``textbook_forms.py`` says what the fast functions here compute in one line of torch; a test holds every head to it.

Shape letters, one legend for the whole library: B sequences, T positions, N positions that count, D hidden width, V
vocabulary, K asked ids or parts, S stored entries, E source positions.
"""
