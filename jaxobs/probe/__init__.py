"""What runs in the training process: marks, watched functions, completions, the sender."""
