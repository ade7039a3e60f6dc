"""Methods that mix public and private labelled data, and their baselines."""
