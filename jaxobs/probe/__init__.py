"""Floor 4: what runs in the training process: marks, watched functions, completions, the sender."""
