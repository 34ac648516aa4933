"""Recorded time series: long tables and the files of two benchmarks, dealt to silos."""
