"""python -m stator run script.py | report DIR | explain module:function | env"""

from __future__ import annotations

import argparse
import atexit
import importlib
import os
import platform
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m stator")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run", help="run a script with torch.compile served by Stator, and write its trace and events"
    )
    run.add_argument("--trace", default="stator_trace", help="the directory of the trace (default: stator_trace)")
    run.add_argument("script")
    run.add_argument("args", nargs=argparse.REMAINDER)
    report = commands.add_parser("report", help="make one HTML page of a trace")
    report.add_argument("directory")
    report.add_argument("-o", "--output", default="report.html")
    explain = commands.add_parser("explain", help="explain a call of a function without arguments")
    explain.add_argument("target", help="module:function")
    commands.add_parser("env", help="print what a bug report needs")
    options = parser.parse_args(arguments)
    return int(_COMMANDS[options.command](options))


def _run(options: argparse.Namespace) -> int:
    import torch

    import stator
    from stator import events, trace
    from stator.once import Once

    if not Path(options.script).is_file():
        print(f"there is no script {options.script}", file=sys.stderr)
        return 2

    told = Once()

    def served(model: Any = None, **settings: Any) -> Any:
        settings = {key: value for key, value in settings.items() if value is not None}
        # Without a backend, these are for torch's default one, which is not used here.
        if "backend" not in settings and (dropped := [key for key in ("mode", "options") if settings.pop(key, None)]):
            text = f"stator run: {' and '.join(dropped)} of torch.compile: for torch's own backend, ignored"
            if told.first(text):
                print(text, file=sys.stderr)
        return stator.compile(model, **settings)

    def finish() -> None:
        trace.stop()
        events.stop()
        if path is not None:
            _export_events(path.with_name(path.stem.replace("trace", "events", 1) + ".json"))
            _progress(f"trace in {options.trace}; python -m stator report {options.trace} -o report.html")

    # Called after the script's threads have ended, and after what the script itself registers.
    atexit.register(finish)
    sys.argv = [options.script, *options.args]
    path = trace.start(options.trace)
    events.start()
    torch.compile = served
    sys.path.insert(0, str(Path(options.script).resolve().parent))
    runpy.run_path(options.script, run_name="__main__")
    return 0


def _export_events(file: Path) -> None:
    from stator import events

    try:
        events.export(file)
    except OSError as error:
        warnings.warn(f"{file} is not written: {error}", RuntimeWarning, stacklevel=2)


def _report(options: argparse.Namespace) -> int:
    from stator import progress
    from stator.html import write_report

    try:
        with progress.shown(f"the trace in {options.directory} is read"):
            frames = write_report(options.directory, options.output)
    except (OSError, ValueError) as error:
        print(f"no report: {error}", file=sys.stderr)
        return 1
    _progress(f"{frames} compilations in {options.output}")
    return 0


def _explain(options: argparse.Namespace) -> int:
    import stator

    module, _, name = options.target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        target: Any = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        print(f"{options.target!r} was not found: {error}", file=sys.stderr)
        return 1
    print(stator.explain(target)())
    return 0


def _env(options: argparse.Namespace) -> int:
    import torch

    import stator

    rows = {
        "stator": stator.__version__,
        "torch": torch.__version__,
        "python": sys.version.replace("\n", " "),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "backends": stator.list_backends(),
        "settings": stator.config.to_dict(),
        "instruction counter": "there is none" if stator._C.retired_instructions() is None else "works",
        "environment": {key: value for key, value in os.environ.items() if key.startswith(("STATOR_", "TORCH"))},
    }
    for name, value in rows.items():
        print(f"{name}: {value}")
    return 0


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


_COMMANDS = {"run": _run, "report": _report, "explain": _explain, "env": _env}

if __name__ == "__main__":
    sys.exit(main())
