"""From a compiled model to a finished run: assembly, initial values, events, the loop driven in slices."""
