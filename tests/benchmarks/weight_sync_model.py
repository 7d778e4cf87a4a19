"""What the weight benchmark sends, and the two plain ways that it is compared with.

The shapes are smollm2-135m's (vocabulary 49152, width 576, 30 layers, 3 of 9 heads for keys and
values, inner width 1536, embeddings tied); the numbers are random.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from safetensors.torch import load, save
from torch import Tensor

from swarmnode.weights.meeting import Group

WIDTH, KEYS, INNER, LAYERS, VOCABULARY = 576, 192, 1536, 30, 49152


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """By name, in the model's own order."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, WIDTH)}
    for layer in range(layers):
        name = f"model.layers.{layer}"
        shapes |= {
            f"{name}.self_attn.q_proj.weight": (WIDTH, WIDTH),
            f"{name}.self_attn.k_proj.weight": (KEYS, WIDTH),
            f"{name}.self_attn.v_proj.weight": (KEYS, WIDTH),
            f"{name}.self_attn.o_proj.weight": (WIDTH, WIDTH),
            f"{name}.mlp.gate_proj.weight": (INNER, WIDTH),
            f"{name}.mlp.up_proj.weight": (INNER, WIDTH),
            f"{name}.mlp.down_proj.weight": (WIDTH, INNER),
            f"{name}.input_layernorm.weight": (WIDTH,),
            f"{name}.post_attention_layernorm.weight": (WIDTH,),
        }
    return shapes | {"model.norm.weight": (WIDTH,)}


def model(dtype: torch.dtype, layers: int) -> dict[str, Tensor]:
    """Tensors of those shapes, the same in every process."""
    torch.manual_seed(0)
    return {name: torch.randn(shape).to(dtype) for name, shape in shapes(layers).items()}


def contiguous(group: Group, memory: Tensor) -> None:
    """One broadcast of everything from rank 0, and a byte back that says that it is there."""
    answer = torch.zeros(1, dtype=torch.uint8)
    for part, root in ((memory, 0), (answer, 1)):
        options = torch.distributed.BroadcastOptions()
        options.rootRank = root
        group.broadcast([part], options).wait()


def put_all(port: int, tensors: Mapping[str, Tensor]) -> None:
    """Send tensors by HTTP, a request each, over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for name, tensor in tensors.items():
        connection.request("PUT", f"/{name}", body=save({name: tensor}))
        connection.getresponse().read()
    connection.close()


def serve(into: Mapping[str, Tensor]) -> ThreadingHTTPServer:
    """Take such requests from now on, on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for name, tensor in load(body).items():
                into[name].copy_(tensor)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
