"""The tracer as models use it; it lives in `dalembert.tracing`, below the configuration spaces, which use it too."""

from dalembert.tracing import (
    UFUNC_NAMES,
    MissingParameter,
    Namespace,
    Sym,
    SymArray,
    TraceError,
    matrix,
    to_sx,
    vector,
)

__all__ = ["UFUNC_NAMES", "MissingParameter", "Namespace", "Sym", "SymArray", "TraceError", "matrix", "to_sx", "vector"]
