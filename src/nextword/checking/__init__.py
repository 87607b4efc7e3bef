"""The checker: test that a model's next-word distributions are consistent and depend only on allowed inputs."""
