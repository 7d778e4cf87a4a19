"""TensorBoard's event files, by its own package: they need neither torch nor TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from swarmnode.trackers.run import Run


class TensorBoard:
    """A folder of event files; every start of the node begins another file in it."""

    def __init__(self, writer: EventFileWriter, folder: Path) -> None:
        self._writer = writer
        self.where = f"tensorboard --logdir {folder.parent}"

    @classmethod
    def open(cls, run: Run) -> Self:
        """Begin a file, with the settings as its text."""
        folder = Path(run.folder) / run.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        writer = EventFileWriter(str(folder))
        writer.add_event(Event(step=0, summary=_text("settings", _listed(run.settings))))
        return cls(writer, folder)

    def log(self, round_number: int, ended: float, values: Mapping[str, float]) -> None:
        """One event with a figure for each name."""
        figures = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        summary = Summary(value=figures)
        self._writer.add_event(Event(wall_time=ended, step=round_number, summary=summary))

    def flush(self) -> None:
        """To disk."""
        self._writer.flush()

    def close(self) -> None:
        """To disk, and close the file."""
        self._writer.close()


def _text(tag: str, text: str) -> Summary:
    """TensorBoard's text plugin takes a tensor of strings, as Markdown."""
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=shape)
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=tensor)])


def _listed(settings: Mapping[str, object]) -> str:
    return "\n".join(f"    {name} = {json.dumps(value)}" for name, value in settings.items())
