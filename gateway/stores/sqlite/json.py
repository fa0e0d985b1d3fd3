"""JSON in columns: written strictly, read patiently. A row that cannot be read is told apart from an empty one."""

from ostler.wire.json import JsonObject, Undecodable, decode, encode_line, without_surrogates


def write_json(value: object) -> str:
    return encode_line(value)[:-1].decode()


def read_json(text: str) -> object:
    """The value, or `Undecodable`."""
    return decode(text.encode())


def read_object(text: str | None) -> JsonObject:
    """An object; {} where there is none or it cannot be read: what hangs on it is worth more than it."""
    try:
        value = {} if text is None else read_json(text)
    except Undecodable:
        return {}
    return value if isinstance(value, dict) else {}


def read_objects(text: str) -> tuple[JsonObject, ...]:
    """A list of objects, or `Undecodable`."""
    value = read_json(text)
    if not isinstance(value, list):
        raise Undecodable("not_json")
    return tuple(item for item in value if isinstance(item, dict))


def read_pairs(text: str) -> list[list[object]]:
    """A list of pairs, or `Undecodable`."""
    value = read_json(text)
    if not isinstance(value, list):
        raise Undecodable("not_json")
    return [pair for pair in value if isinstance(pair, list) and len(pair) == 2]


def storable(text: str) -> str:
    """A text that a database can keep: a lone surrogate is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return str(without_surrogates(text))
    return text
