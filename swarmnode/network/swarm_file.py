"""The swarm file from a peer, for those who know a swarm's id and one address.

The peer need not be trusted: the id is the hash of the rules. Its bootstrap addresses are hints.
Of a private swarm only members hear anything, and nobody the key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from swarmnode.network.peer import PeerUnreachable, Swarm, peer_id_in
from swarmproto import (
    RESPONSE_BYTES_MAX,
    SWARM_PROTOCOL,
    SwarmRequest,
    SwarmResponse,
    SwarmSecret,
    WireError,
    decode_rules,
    decode_swarm_response,
    encode_swarm_request,
    swarm_id,
)

ASK_SECONDS: Final = 10.0


async def swarm_file(
    peer: Swarm,
    connect: Callable[[str], Awaitable[bool]],
    wanted: bytes,
    address: str,
    secret: SwarmSecret | None = None,
) -> SwarmResponse:
    """A response with rules that hash to the id, that of a private swarm where there is a secret.

    Raises PeerUnreachable, one line.
    """
    peer_id = peer_id_in(address)
    if not peer_id:
        raise PeerUnreachable("an address that ends in /p2p/PEER is needed")
    if not await connect(address):
        raise PeerUnreachable(f"could not dial {address}")
    answer = await peer.call(
        peer_id,
        SWARM_PROTOCOL,
        encode_swarm_request(SwarmRequest(wanted)),
        RESPONSE_BYTES_MAX,
        ASK_SECONDS,
    )
    try:
        response = decode_swarm_response(answer)
        rules = None if response.rules is None else decode_rules(response.rules)
    except WireError as error:
        raise PeerUnreachable(f"the peer's answer breaks the protocol: {error}") from None
    if rules is None or swarm_id(rules, secret) != wanted:
        raise PeerUnreachable("the peer does not know that swarm")
    return response
