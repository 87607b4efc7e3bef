"""Several words a pass: words that may come next are guessed, and one pass of the model judges them all.

In the order in which they act:

- ``drafting.py`` has what ``generate(draft=...)`` takes, and what became of the guesses.
- ``drafted_loop.py`` has the loop that ``generate`` runs, the texts so far, and what cannot be combined with a draft.
- ``draft_length.py`` decides before each pass whether guessing pays and how many words do, and learns it on the run.
- ``drafter.py`` is the contract of who guesses, and has those who do: by where the head copied from, and by where the
  last words stood before.
- ``step_inputs.py`` makes what the model is handed in each pass.
- ``word_choice.py`` makes the model's own next word at each position, which the guesses are compared with.
"""
