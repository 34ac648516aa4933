"""Comparisons of learners: data sets × algorithms × seeds, as tables and pictures."""

from .runner import Benchmark, benchmark

__all__ = ["Benchmark", "benchmark"]
