"""Recorded time series of somebody's: long tables and the files of two benchmarks, dealt to silos."""
