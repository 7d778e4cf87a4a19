"""Settings of the policy: which model, where and how it computes, how `tiny` is warm-started."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from swarmnode.config.base import Section
from swarmnode.config.weights import WeightSync

PositiveInt = Annotated[int, Field(ge=1)]
Device = Literal["auto", "cpu", "mps", "cuda"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
External = Literal["on", "monitor", "off"]
EngineName = Literal["auto", "native", "hf", "vllm"]
Mode = Literal["sync", "split"]

TINY_NEW_TOKENS = 20
NEW_TOKENS = 64
"""Longest completion of any other model, unless it is set."""


SHOWN_EXAMPLES = 4
"""Examples before a question of any other model, unless it is set."""


class TinySettings(Section):
    """The shape of the built-in model `tiny`."""

    width: Annotated[int, Field(ge=16, le=512, multiple_of=2)] = 64
    """Width of the hidden states; a multiple of twice the number of heads."""
    layers: Annotated[int, Field(ge=1, le=16)] = 2
    """Number of decoder layers."""
    heads: Annotated[int, Field(ge=1, le=16)] = 4
    """Number of attention heads in a layer."""
    feed_forward_width: Annotated[int, Field(ge=16, le=2048)] = 192
    """Inner width of a layer's feed-forward part."""
    initial_deviation: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Standard deviation of the random starting weights."""


class WarmStartSettings(Section):
    """The supervised warm start of `tiny` on questions and answers of easy levels.

    A base is trained on every task, shared by all nodes; a specialist goes on from it with the
    tasks of its node.
    """

    base_steps: Annotated[int, Field(ge=0)] = 950
    """Steps of the shared base; 0 leaves it out."""
    base_pairs_per_task: PositiveInt = 1000
    """Questions and answers of each task that the base learns from."""
    steps: Annotated[int, Field(ge=0)] = 30
    """Steps of a specialist after the base; 0 leaves it out."""
    pairs_per_task: PositiveInt = 250
    """Questions and answers of each of its tasks that a specialist learns from."""
    batch_size: PositiveInt = 16
    """Questions and answers in a step."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 7e-3
    """Highest learning rate of the base, of Muon for the layers' matrices and of AdamW for the
    rest, reached after the first tenth of the steps."""
    skill_learning_rate: Annotated[float, Field(gt=0, le=1)] = 3e-3
    """The same for a specialist; lower, so that it keeps what the base knows."""
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Weight decay, per unit of learning rate."""


class LoraSettings(Section):
    """Low-rank adapters (LoRA, arXiv 2106.09685); they need the extra `lora`."""

    rank: Annotated[int, Field(ge=0, le=1024)] = 0
    """Rank of the adapters; 0 trains all weights. `tiny`, which knows nothing at first, has
    none."""
    alpha: Annotated[float, Field(gt=0)] = 32.0
    """The adapters' product is scaled by this over the rank."""
    targets: tuple[str, ...] = ()
    """Names of the linear layers that get one, such as `q_proj`; empty means all but the head."""


class PolicySettings(Section):
    """The node's language model and how it samples."""

    model: str = "tiny"
    """The model: `tiny`, which is built in; `smollm2-135m`, out of the package of the extra of that
    name; the id of one of the Hugging Face hub, such as `Qwen/Qwen2.5-0.5B-Instruct`; or a folder,
    written with a slash. Only safetensors are loaded, and no code of a model is run."""
    revision: str = "main"
    """Branch, tag or commit of a hub model. What was downloaded once is taken from the cache from
    then on; a commit pins it on every machine."""
    instruction: str = ""
    """What a chat model is told before anything else, as the system's turn. A model that should
    reason before it answers wants one such as: Think step by step, then give the final answer
    between <answer> and </answer>. It then wants `policy.examples=0` and more new tokens too."""
    examples: Annotated[int | None, Field(ge=0, le=32)] = None
    """Other questions of the same task and level, with their right answers, that the model sees
    before each question, as earlier turns: they show the form that the verifier reads. Unset means
    none for `tiny`, whose warm start teaches the form, and 4 for every other model."""
    thinking: bool = False
    """What a chat template that knows `enable_thinking` is told."""
    device: Device = "auto"
    """Where the model computes; `auto` takes CUDA, else MPS, else the CPU."""
    dtype: Precision = "auto"
    """What it computes in. `auto`: bfloat16 on CUDA where the hardware has it; on a processor only
    for weights that adapters leave alone, and only if it has instructions for it and proves to be
    faster by it in a second's trial; else float32. `tiny` is always float32. What is trained, and
    the optimizer, stay float32."""
    engine: EngineName = "auto"
    """What samples: `native`, our own, for the families that it covers; `hf`, transformers' own
    loop, for every other. `vllm` is taken by name alone: it needs CUDA, a version of vllm that
    takes our transformers, and room for a second copy of the weights; we have not run it yet."""
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    """Threads that the policy's process computes with; at most as many as there are cores, one of
    which the daemon and the scorer want now and then. Other numbers of threads give sums that
    differ in their last bits: the same seed gives the same weights for the same number. `tiny`
    always has one, since its products are too short to be shared; so has `swarmnode eval`, whose
    figures are to be the same everywhere, and a simulation, which has a process for each core."""
    memory_limit_mib: Annotated[int, Field(ge=0)] = 0
    """Memory that the policy's process may need by the estimate of `swarmnode doctor --model`; a
    model beyond it is refused before it is loaded. 0 is what the machine has available then."""
    trainer_processes: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes of this machine that train the policy together, each with a part of its weights,
    gradients and moments (FSDP2) and a part of each round's rows: on CUDA one for each device.
    Their steps are those of one. Under torchrun that says how many there are, on any number of
    machines (docs/scaling.md)."""
    mode: Mode = "sync"
    """How a node generates and trains. `sync`: one after the other, in one process. `split`: in
    processes of their own, at the same time, with a queue of finished groups in between
    (docs/split.md). A simulation is always `sync`."""
    generators: Annotated[int, Field(ge=0, le=64)] = 1
    """Under `split`, the processes of this machine that generate, each with a copy of the
    weights."""
    remote_generators: Annotated[int, Field(ge=0, le=64)] = 0
    """Under `split`, places for generators that are started by hand on other machines, by
    `swarmnode generate` (docs/scaling.md)."""
    generators_address: Annotated[str, Field(pattern=r"^(\S+:\d{1,5})?$")] = ""
    """Address and port at which they come in, on this machine: encrypted, and open to nobody
    without the file `generators.pem` of the node's home. Empty listens nowhere."""
    queue_groups: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Under `split`, own groups that may be under way and wait, together. Unset is one round's
    for each generator and one more."""
    max_policy_lag: Annotated[int, Field(ge=0)] = 4
    """Under `split`, versions of the policy that an own group may be behind when it is trained on;
    a round makes up to `training.inner_steps` of them. What would be staler isn't begun. 0 lets no
    two phases overlap."""
    max_age: Annotated[float, Field(gt=0)] = 3600.0
    """Under `split`, seconds since its sampling began, at which an own group is too old."""
    release_memory: bool = False
    """Give the memory of sampling and of training back to the machine when each ends, and take it
    anew when it begins: for where others need it meanwhile, or where phases of changing size leave
    it in pieces. vLLM sleeps between calls then. It costs time (docs/models.md); what is sampled
    and learned stays the same."""
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Sampling temperature; log-probs are those of the distribution at this temperature."""
    max_new_tokens: Annotated[int | None, Field(ge=1, le=4096)] = None
    """Longest completion in tokens, the end token included; a longer one is cut off. Unset means
    20 for `tiny` and 64 for every other model."""
    external: External = "on"
    """What becomes of peers' groups. `on`: they are trained on. `monitor`: they are fetched,
    verified, scored, chosen and measured, and none is trained on. `off`: nothing is fetched. What
    is shared with others is `rounds.share`."""
    skills: tuple[str, ...] = ()
    """Tasks that the own warm start of `tiny` teaches on a real network; empty takes two that
    follow from the node's key. A simulation has its own setting for all its nodes."""
    lora: LoraSettings = LoraSettings()
    """Training a low-rank adapter instead of all weights."""
    weights: WeightSync = WeightSync()
    """How a trainer's weights get to generators in other processes."""
    tiny: TinySettings = TinySettings()
    """The shape of `tiny`."""
    warm_start: WarmStartSettings = WarmStartSettings()
    """The supervised warm start of `tiny`."""

    @model_validator(mode="after")
    def _generators_can_be_reached(self) -> PolicySettings:
        if self.mode == "split" and not self.generators + self.remote_generators:
            raise ValueError(
                "policy.mode=split needs a generator: set policy.generators, or "
                "policy.remote_generators, above 0"
            )
        if not self.remote_generators:
            return self
        if not self.generators_address:
            raise ValueError("policy.remote_generators needs policy.generators_address")
        if self.weights.channel == "shared-memory":
            raise ValueError(
                "shared memory doesn't reach generators on other machines: set "
                "policy.weights.channel to folder or broadcast"
            )
        return self

    @model_validator(mode="after")
    def _adapters_are_not_spread(self) -> PolicySettings:
        if self.trainer_processes > 1 and self.lora.rank > 0:
            raise ValueError(
                "adapters can't be trained by several processes yet: set "
                "policy.trainer_processes or policy.lora.rank back"
            )
        return self

    @property
    def shown_examples(self) -> int:
        """Examples before a question, with the default resolved."""
        if self.model == "tiny":
            return 0
        return SHOWN_EXAMPLES if self.examples is None else self.examples

    @property
    def host_threads(self) -> int:
        """Threads of a node's policy host."""
        return 1 if self.model == "tiny" else self.threads

    @property
    def new_tokens(self) -> int:
        """The longest completion with its default resolved."""
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        return TINY_NEW_TOKENS if self.model == "tiny" else NEW_TOKENS
