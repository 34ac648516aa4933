"""Effects of interventions in a learned graph: identification, estimates and their sensitivity."""
