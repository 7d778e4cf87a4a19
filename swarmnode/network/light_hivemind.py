"""The parts of hivemind that the network needs, without the rest of it.

`import hivemind` brings torch, averaging and experts: 4 s of CPU and 311 MB. Here its packages
`hivemind`, `hivemind.utils` and `hivemind.dht` become shells that have a place on disk and no
code, so that only the modules named below are loaded: 0.3 s and 38 MB, torch installed or not.
A process that has imported this module can't use the rest of hivemind.

Importing it also replaces hivemind's deserialiser: the original re-enters a C function for every
nested tuple, and 1.7 KB from a stranger overflow its stack. So no node can run without the limits.

py-libp2p can't be imported into the same process: both register the protobuf `crypto.pb`.
This is the one module that knows hivemind by name; its version is pinned exactly.
Source: network.md section 1, security.md section 0.2.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import msgpack

DEPTH_MAX: Final = 8
"""Tuples within tuples that a value of the DHT may have."""
DICTIONARY_RECORDS_MAX: Final = 256
"""Records under one key that are read from anybody, and held for anybody."""
DICTIONARY_BYTES_MAX: Final = DICTIONARY_RECORDS_MAX * 1280

_TUPLE_CODE: Final = 0x40
_DICTIONARY_CODE: Final = 0x50


def _shell(name: str) -> ModuleType:
    """A package that is found on disk and whose __init__ is never run."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"{name} is not installed", name=name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


def _load(name: str) -> Any:
    return importlib.import_module(name)


_shell("hivemind")
_utils: Any = _shell("hivemind.utils")
_shell("hivemind.dht")
_logging = _load("hivemind.utils.logging")
_serializer = _load("hivemind.utils.serializer")
_timed = _load("hivemind.utils.timed_storage")
_utils.get_logger = _logging.get_logger
_utils.MSGPackSerializer = _serializer.MSGPackSerializer
_utils.SerializerBase = _serializer.SerializerBase
for _name in ("DHTExpiration", "TimedStorage", "ValueWithExpiration", "get_dht_time"):
    setattr(_utils, _name, getattr(_timed, _name))

_daemon = _load("hivemind.p2p.p2p_daemon")
_bindings = _load("hivemind.p2p.p2p_daemon_bindings.utils")
_routing = _load("hivemind.dht.routing")
_storage = _load("hivemind.dht.storage")

P2P: Any = _daemon.P2P
PeerID: Any = _daemon.PeerID
Multiaddr: Any = _daemon.Multiaddr
RoutingTable: Any = _routing.RoutingTable
DHTID: Any = _routing.DHTID
DictionaryDHTValue: Any = _storage.DictionaryDHTValue
MSGPackSerializer: Any = _serializer.MSGPackSerializer
dht_messages: Any = _load("hivemind.proto.dht_pb2")
control_messages: Any = _load("hivemind.proto.p2pd_pb2")
read_message: Any = _bindings.read_pbmsg_safe
write_message: Any = _bindings.write_pbmsg
CONNECTION_ERRORS: Final = (
    _bindings.P2PDaemonError,
    _bindings.P2PHandlerError,
    _load("google.protobuf.message").DecodeError,
)
"""What hivemind raises where a peer or p2pd refuses a call, or answers what is no message."""


def _dictionary(data: bytes) -> Any:
    """A dictionary value from outside: texts, bytes and expiries, nothing nested, limits first.

    Its own claims of size and latest expiry are not believed: both follow from its records.
    """
    if len(data) > DICTIONARY_BYTES_MAX:
        raise ValueError("a dictionary of too many bytes")
    _, _, items = msgpack.unpackb(
        data,
        raw=False,
        max_array_len=DICTIONARY_RECORDS_MAX,
        max_map_len=0,
        max_ext_len=0,
        max_str_len=128,
        max_bin_len=2048,
    )
    dictionary = DictionaryDHTValue()
    with dictionary.freeze():
        for subkey, value, expires in items:
            if not (
                isinstance(subkey, str) and isinstance(value, bytes) and isinstance(expires, float)
            ):
                raise ValueError("a record that is no text, bytes and time")
            dictionary.store(subkey, value, expires)
    return dictionary


def _extension(depth: int) -> Callable[[int, bytes], Any]:
    def decode(code: int, data: bytes) -> Any:
        if code == _DICTIONARY_CODE:
            return _dictionary(data)
        if code != _TUPLE_CODE:
            raise ValueError("an unknown extension")
        if depth >= DEPTH_MAX:
            raise ValueError("tuples nested too deep")
        return tuple(_unpack(data, depth + 1))

    return decode


def _unpack(data: bytes, depth: int) -> Any:
    return msgpack.unpackb(
        data,
        ext_hook=_extension(depth),
        raw=False,
        max_array_len=DICTIONARY_RECORDS_MAX,
        max_map_len=DICTIONARY_RECORDS_MAX,
        max_ext_len=DICTIONARY_BYTES_MAX,
    )


def load_value(data: bytes) -> Any:
    """What a peer put into the DHT. Raises ValueError (and its kin of msgpack) beyond limits."""
    if len(data) > DICTIONARY_BYTES_MAX + 16:
        raise ValueError("a value of too many bytes")
    return _unpack(data, 0)


MSGPackSerializer._decode_ext_types = staticmethod(_extension(0))
MSGPackSerializer.loads = staticmethod(load_value)
DictionaryDHTValue.unpackb = staticmethod(_dictionary)

_logging.use_hivemind_log_handler("nowhere")
logging.addLevelName(logging.WARNING, "WARNING")  # hivemind renames it for the whole process
logging.getLogger("hivemind").setLevel(logging.CRITICAL)
