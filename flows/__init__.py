"""The flows `learn` and `prepare`, their engines and options, the command line, the Python API and benchmarks."""
