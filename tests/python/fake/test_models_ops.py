"""Real models on fakes: forward and backward have the metadata of a real run, and no Python kernel is called."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("transformers")

PROGRAM = pathlib.Path(__file__).with_name("model_runs.py")
MODELS = ("bert", "gpt2", "llama", "t5", "vit", "resnet", "convnext")


@pytest.mark.parametrize("model", MODELS)
def test_model_on_fakes(model):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), model], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) >= 2
    for result in results:
        label = (result["model"], result["attention"], result["training"])
        assert result["poison"] is None, (label, result["poison"])
        assert result["equal"], (label, result["found"], result["expected"])
        assert result["tiers"]["python"] == 0 and result["tiers"]["refused"] == 0, (label, result["tiers"])
        assert result["imported"] == [], label
