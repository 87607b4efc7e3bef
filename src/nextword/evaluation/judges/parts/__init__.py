"""What judges share: models found and told apart, features kept beside the samples, sentences, tables as text."""
