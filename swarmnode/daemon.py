"""`swarmnode run`: the life of one node as a daemon.

Starts the children, lets the node lead its life (life.py) and ends in order. Whatever breaks is
mended where it belongs: the network process by its transport, the scorer by its supervisor, the
policy host by its keeper, a generator by its loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

import structlog
import uvloop

from swarmnode.api.status import SocketError, StatusServer
from swarmnode.children import policy_child, scoring_child, steps_told, trainer_words
from swarmnode.clock import SystemClock
from swarmnode.joining import network_order
from swarmnode.keeper import PolicyKeeper
from swarmnode.life import Life
from swarmnode.limits import raise_open_files
from swarmnode.memories import Memories
from swarmnode.network.nobody import Nobody
from swarmnode.network.remote import RemoteTransport
from swarmnode.observe.status import Phase
from swarmnode.outfit import Plan, followers_of, limits_of, ordered_policy, remote_policy
from swarmnode.process import Child
from swarmnode.progress import Step
from swarmnode.remote_generators import Door, Place
from swarmnode.rewards.client import Scorer
from swarmnode.service import ServiceManager, keep_telling
from swarmnode.showing import show
from swarmnode.splitting import generator_children, places_elsewhere
from swarmnode.stopping import Stopping
from swarmnode.store.store import Store
from swarmnode.telling import documents_of
from swarmnode.trackers.following import Following
from swarmnode.vitals import Around, Vitals

log = structlog.get_logger()


def run(plan: Plan, say: Callable[[str], None], starting: Callable[[Step | None], None]) -> None:
    """Run the node until it is told to stop, or has gone through its rounds.

    `say` is told a line for the user: where the dashboard is. `starting` is told how far the start
    is, and at its end None.
    Raises ChildError where a child doesn't start or what was learned can't be saved, DoorError
    where generators can't come in, StoreError and OSError for a home that cannot be used.
    """
    raise_open_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(plan, say, starting))


async def _live(
    plan: Plan, say: Callable[[str], None], starting: Callable[[Step | None], None]
) -> None:
    stopping = Stopping(
        plan.settings.daemon.grace_seconds,
        "stopping: the round is finished, then a checkpoint is written",
    )
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        home, rng = plan.home, plan.rng("indices")
        limits = limits_of(plan.settings.daemon)
        store = Store.open(home.database, home.reserved, now=clock.now, limits=limits, rng=rng)
        stack.callback(store.close)
        scoring = scoring_child(plan.settings, plan.swarm.swarm_id)
        host = policy_child(
            plan.environment,
            "policy host",
            plan.settings.policy.host_threads,
            trainer_words(plan.settings.policy, plan.environment),
        )
        generators = generator_children(plan)
        for child in (scoring, host, *generators.values()):
            child.start()
            stack.push_async_callback(child.close)
        places = places_elsewhere(plan)
        if places:
            _let_in(plan, places, stack)
        memories = Memories(store, clock)
        await memories.restore()
        remote = None if plan.solo else await _remote(plan, store, clock)
        transport = remote or Nobody()
        stack.push_async_callback(transport.close)
        around = Around(
            settings=plan.settings,
            home=plan.home.path,
            identity=plan.identity,
            swarm_id=plan.swarm.swarm_id,
            swarm_name=None if plan.solo else plan.swarm.rules.name,
            private=plan.swarm.private,
            started=clock.now(),
            store=store,
            children={"policy": host, "scorer": scoring, **generators},
            network_process=lambda: remote.process_id if remote else None,
        )
        vitals = Vitals(around)
        following = vitals.following = Following(followers_of(plan))
        stack.push_async_callback(following.close)
        manager = ServiceManager(plan.environment)
        if manager.there:
            now = partial(_now, vitals, clock)
            stack.callback(asyncio.create_task(keep_telling(manager, clock, now)).cancel)
        documents = documents_of(vitals, memories, transport, store, clock)
        try:
            server = await StatusServer.start(plan.home.status_socket, documents)
            stack.push_async_callback(server.close)
        except SocketError as error:
            # Nobody needs a status to train.
            log.error("no status", why=str(error))
        shown_at = await show(stack, plan.settings, home, vitals, memories, transport, clock)
        if shown_at:
            say(f"dashboard  {shown_at}")
        scorer = Scorer(scoring, plan.settings.rewards)
        policy = remote_policy(plan, host, clock)
        vitals.keeper = PolicyKeeper(
            host, policy, ordered_policy(plan, scorer), plan.home.checkpoints
        )
        hosts: dict[str, Child | Place] = {**generators, **{place.name: place for place in places}}
        life = Life(
            plan,
            clock,
            store,
            vitals,
            vitals.keeper,
            memories,
            transport,
            remote,
            hosts,
            following,
        )
        try:
            async with steps_told(host, starting):
                begun = await stopping.unless(life.begin(scorer, policy))
        finally:
            starting(None)
        if begun:
            await life.lead(stopping)


def _let_in(plan: Plan, places: Sequence[Place], stack: AsyncExitStack) -> None:
    """Let generators on other machines come in, until the stack ends."""
    address, key = plan.settings.policy.generators_address, plan.home.generators_key
    door = Door.open(address, key, places)
    stack.push_async_callback(door.close)
    stack.callback(asyncio.create_task(door.run(), name="generators-door").cancel)
    log.info("waiting for generators", address=address, key=str(key))


def _now(vitals: Vitals, clock: SystemClock) -> tuple[Phase, str]:
    status = vitals.document(clock.now())
    return status.phase, status.summary


async def _remote(plan: Plan, store: Store, clock: SystemClock) -> RemoteTransport:
    swarm_id = plan.swarm.swarm_id
    saved_peers = await store.saved_peers(swarm_id)
    order = network_order(plan.settings.network, plan.home, plan.identity, plan.swarm, saved_peers)
    return RemoteTransport(
        order,
        clock,
        on_saved_peers=partial(store.keep_saved_peers, swarm_id),
        log_folder=plan.home.log,
    )
