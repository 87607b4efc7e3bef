"""The plan of ``nextword reproduce --dry-run``: what would be trained, what that takes, and what is wrong.

- ``published_models.py``, ``gpus.py``: sizes and speeds that others have published, as data;
- ``stand_in_tokenizer.py``: as many tokens as settings ask for, where a tokenizer would have to be trained;
- ``meta_models.py``: every method on the start's architecture, without memory for its weights;
- ``work.py``: steps, tokens and floating-point operations; ``memory.py``: memory and disk;
- ``judge_models.py``: the models that metrics ask;
- ``start_models.py``: what the methods begin from; ``experiment_work.py``: all trainings of a comparison;
- ``measured_steps.py``: what a step takes here, tried; ``training_time.py``: on a GPU, estimated;
- ``experiment_plan.py``: all of it for one experiment; ``plan.py``: of all, and whether there is room.
"""
