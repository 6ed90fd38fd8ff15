"""Small programs over the language, the library and torch, one file per category. Each must behave the same plain and
under `stator.compile`, in every call. `registry` registers programs, `run` runs them, `observe` describes what is
observable."""
