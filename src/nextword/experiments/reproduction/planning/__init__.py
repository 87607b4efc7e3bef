"""The plan of ``nextword reproduce --dry-run``: what would be trained, what that takes, and what is wrong.

In the order in which they act:

1. ``experiment_work.py`` says what an experiment trains, what its methods begin from, and how large published models
   are (``published_models.toml``), with a tokenizer of a given size where one would have to be trained.
2. ``work.py`` counts trainings, steps, tokens and floating-point operations.
3. ``meta_models.py`` makes every method on the start's architecture, without memory for its weights.
4. ``judge_models.py`` looks for the models that metrics ask and trainings begin from.
5. ``measured_steps.py`` tries what a step takes here.
6. ``training_time.py`` estimates what a step takes on a GPU (``gpus.toml``), and memory and disk.
7. ``experiment_plan.py`` has the plan of one experiment and of all, says whether there is room, and makes up text for
   data that is missing.
"""
