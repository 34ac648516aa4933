"""Learning from time series: structures within one time, and from earlier times."""
