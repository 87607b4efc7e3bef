"""Several words a pass: words that may come next are guessed, and one pass of the model judges them all.

In the order in which they act:

- ``drafting.py``: what ``generate(draft=...)`` takes, and what is counted;
- ``drafter.py``: the contract of who guesses; ``places_drafter.py``: where the head copied from, ``prompt_drafter.py``:
  where the last words stood before;
- ``acceptance.py``, ``pass_cost.py``, ``payoff.py``, ``draft_length.py``: how many words of a guess pay, and whether
  guessing does, learned on the run;
- ``drafted_loop.py``: the loop that ``generate`` runs; ``step_inputs.py``: what the model is handed in each pass;
  ``word_choice.py``: the model's own next word at each place; ``written_rows.py``: the texts so far;
- ``refusals.py``: what cannot be combined with a draft, and why; ``single_rows.py``: one text after the other.
"""
