"""One BLAS thread in every test process and what it starts: oversubscription costs far more than it gives."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
