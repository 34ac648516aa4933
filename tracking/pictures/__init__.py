"""Pictures of structures and of rounds."""
