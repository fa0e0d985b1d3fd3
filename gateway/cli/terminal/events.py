"""Decodes server-sent events. Sans-io: bytes in, in chunks of any size; events out."""

from collections.abc import Iterator

from ostler.gateway.model.errors import GatewayError
from ostler.wire.json import JsonObject, Undecodable, decode

LONGEST = 64 * 1024 * 1024


class BrokenStream(GatewayError):
    """The stream is not one that a gateway sends."""


class EventReader:
    """The decoder of one stream."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[JsonObject]:
        """Yield the data of each event that is complete now."""
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        if len(self._rest) > LONGEST:
            raise BrokenStream(f"one event of the gateway is larger than {LONGEST} bytes")
        for block in blocks:
            said = b"\n".join(line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:"))
            if said and said != b"[DONE]":
                yield object_of(said)


def object_of(data: bytes) -> JsonObject:
    """Decode a JSON object; or raise `BrokenStream`."""
    try:
        found = decode(data)
    except Undecodable as error:
        raise BrokenStream(f"the gateway sent an event that is no JSON: {data[:80]!r}") from error
    if not isinstance(found, dict):
        raise BrokenStream(f"the gateway sent an event that is no object: {data[:80]!r}")
    return found
