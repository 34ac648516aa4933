"""What a federated learner is compared with: pooled, local, voting, best."""
