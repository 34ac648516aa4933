"""The command line `fedbnsl`."""
