"""Whether a locked package has a known vulnerability, by pip-audit; the last part of `make check`.

pip-audit asks the package index's JSON API. Where that does not answer (no network, or a mirror
without it), the audit is skipped, says so in a line of its own, and fails nothing: the same command
is run where it answers. Ends with 1 where there is a vulnerability.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

LOCKS: Final = ("packages.txt", "building.txt", "models.txt", "cuda.txt", "libp2p.txt")
# The path that pip-audit asks for: of one release, which a mirror may leave out.
PROBE: Final = "https://pypi.org/pypi/pip/24.0/json"
PROBE_SECONDS: Final = 5.0
AUDIT_SECONDS: Final = 300.0


def unreachable(url: str = PROBE) -> str:
    """Why the service can't be asked; "" if it answers."""
    try:
        with urllib.request.urlopen(url, timeout=PROBE_SECONDS) as response:
            json.load(response)
    except urllib.error.HTTPError as error:
        return f"it answers {error.code}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))[:120]
    return ""


def judged(report: Mapping[str, Any]) -> tuple[Sequence[str], int]:
    """What to say of pip-audit's report, and the exit code."""
    dependencies = report["dependencies"]
    lines = [
        f"audit: {each['name']} {each['version']} has {one['id']}; "
        f"mended in {', '.join(one['fix_versions']) or 'no version yet'}"
        for each in dependencies
        for one in each.get("vulns", ())
    ]
    skipped = [each["name"] for each in dependencies if "skip_reason" in each]
    asked = len(dependencies) - len(skipped)
    if lines:
        return lines, 1
    if not asked:
        return [f"audit: SKIPPED, the service knows none of {len(skipped)} packages"], 0
    unknown = f"; SKIPPED, unknown to the service: {', '.join(skipped)}" if skipped else ""
    return [f"audit: no known vulnerability in {asked} packages{unknown}"], 0


def main() -> int:
    """Audit every lock."""
    if why := unreachable():
        print(f"audit: SKIPPED, vulnerabilities can't be looked up from here ({why})")
        return 0
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-f", "json"]
    command += ["--progress-spinner", "off"]
    locks = Path(__file__).parent.parent / "locks"
    for name in LOCKS:
        command += ["-r", str(locks / name)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=AUDIT_SECONDS)
    try:
        lines, code = judged(json.loads(done.stdout))
    except ValueError:
        print(f"audit: SKIPPED, pip-audit ended with {done.returncode}; its message is above")
        return 0
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
