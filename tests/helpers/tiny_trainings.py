"""A GPT-2 so small that it is trained in a second, and trainings that are killed."""

from __future__ import annotations

from transformers import GPT2Config, GPT2LMHeadModel, set_seed

from nextword.experiments.training.settings import TrainingSettings

VOCABULARY = 30


def tiny_gpt2(tie=True):
    set_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=16,
        n_embd=16,
        n_layer=1,
        n_head=2,
        tie_word_embeddings=tie,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config)


def settings(**changes):
    return TrainingSettings(**{"steps": 6, "batch_size": 4, "log_every": 2, "learning_rate": 1e-2, **changes})


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def killed_at(step):
    """A progress function that raises when the given step is done."""

    def progress(fraction):
        if round(fraction * 6) == step:
            raise KeyboardInterrupt

    return progress
