"""What the data can and cannot support: sums and signs of disagreement, and what they say to the user."""
