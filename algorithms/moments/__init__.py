"""Learning from second moments alone: one pooled, and perhaps private, covariance."""
