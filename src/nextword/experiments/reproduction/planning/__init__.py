"""The plan of ``nextword reproduce --dry-run``: what would be trained, what that takes, and what is wrong.

In the order in which they act:

1. ``work.py`` counts trainings, steps, tokens and floating-point operations.
2. ``meta_models.py`` makes every method on the start's architecture, without memory for its weights.
3. ``experiment_work.py`` has all trainings of a comparison and what its methods begin from, by published sizes
   (``published_models.toml``) and a tokenizer of as many tokens as settings ask for.
4. ``judge_models.py`` looks for the models that metrics ask and trainings begin from.
5. ``measured_steps.py`` tries what a step takes here.
6. ``training_time.py`` estimates what a step takes on a GPU (``gpus.toml``), and memory and disk.
7. ``experiment_plan.py`` has the plan of one experiment and of all, says whether there is room on the disk, and makes
   up text for data that is missing.
"""
