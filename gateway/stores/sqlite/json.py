"""JSON in columns: written strictly, read tolerantly. An unreadable row can be told from an empty one."""

from ostler.wire.json import JsonObject, Undecodable, decode, encode_line, without_surrogates


def write_json(value: object) -> str:
    return encode_line(value)[:-1].decode()


def read_json(text: str) -> object:
    """Decode a value, or raise `Undecodable`."""
    return decode(text.encode())


def read_object(text: str | None) -> JsonObject:
    """Decode an object; {} if there is none or it is invalid: the rest of the row is worth more than this column."""
    try:
        value = {} if text is None else read_json(text)
    except Undecodable:
        return {}
    return value if isinstance(value, dict) else {}


def read_objects(text: str) -> tuple[JsonObject, ...]:
    """Decode a list of objects, or raise `Undecodable`."""
    value = read_json(text)
    if not isinstance(value, list):
        raise Undecodable("not_json")
    return tuple(item for item in value if isinstance(item, dict))


def read_pairs(text: str) -> list[list[object]]:
    """Decode a list of pairs, or raise `Undecodable`."""
    value = read_json(text)
    if not isinstance(value, list):
        raise Undecodable("not_json")
    return [pair for pair in value if isinstance(pair, list) and len(pair) == 2]


def storable(text: str) -> str:
    """Replace lone surrogates, which are not valid UTF-8 and cannot be stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return str(without_surrogates(text))
    return text
