"""What importing the codec brings along, seen from a fresh process."""

import json
import subprocess
import sys
from pathlib import Path


def test_importing_the_codec_brings_only_msgpack_and_cryptography(tmp_path: Path) -> None:
    script = (
        "import sys, json; before = set(sys.modules); import swarmproto;"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        timeout=60,
    )
    brought = {name for name in json.loads(result.stdout) if name not in sys.stdlib_module_names}
    assert not brought & {"torch", "swarmnode", "hivemind", "numpy", "transformers", "pydantic"}
    assert brought >= {"swarmproto", "msgpack", "cryptography"}
    assert {name for name in brought if not name.startswith("_")} <= {
        "swarmproto",
        "msgpack",
        "cryptography",
        "cffi",
        "cython_runtime",
    }
