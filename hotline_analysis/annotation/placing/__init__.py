"""Place a model on the ops of a trace without frames."""
