"""Small programs over the language, the library and torch, one file a category; each must do under `stator.compile`
what it does plain, call after call. `registry` is what the files use, `run` loads and runs them, `observe` says what
is seen."""
