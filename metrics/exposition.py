"""Instruments as text: the Prometheus format 0.0.4 and OpenMetrics 1.0. Pure.

Rules: the two formats differ in the name of a counter's family, in the unit line, and in exemplars, which only
OpenMetrics has.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import TypeAlias

from ostler.metrics.children import CounterValue, GaugeValue, Spread, Total
from ostler.metrics.family import Instrument

AnyFamily: TypeAlias = Instrument[CounterValue] | Instrument[GaugeValue] | Instrument[Spread] | Instrument[Total]
AnyChild: TypeAlias = CounterValue | GaugeValue | Spread | Total
Sample: TypeAlias = tuple[str, dict[str, str], float]

EXAMPLE = "response_id"
INFINITE = "+Inf"


def head(family: AnyFamily, *, openmetrics: bool) -> str:
    """The HELP, TYPE and UNIT lines above the samples."""
    name = family.base if openmetrics else family.name
    unit = f"# UNIT {name} {family.unit}\n" if openmetrics and family.unit else ""
    return f"# HELP {name} {escaped(family.text, quotes=openmetrics)}\n# TYPE {name} {family.kind}\n{unit}"


def lines(family: AnyFamily, values: tuple[str, ...], child: AnyChild, *, openmetrics: bool) -> list[str]:
    """The sample lines of one child."""
    pairs = ",".join(
        f'{label.name}="{escaped(value, quotes=True)}"' for label, value in zip(family.labels, values, strict=True)
    )
    braces = f"{{{pairs}}}" if pairs else ""
    match child:
        case Spread():
            return spread_lines(family.name, pairs, braces, child, openmetrics=openmetrics)
        case Total():
            return [f"{family.name}_count{braces} {child.count}\n", f"{family.name}_sum{braces} {child.sum}\n"]
        case _:
            return [f"{family.name}{braces} {child.value}\n"]


def spread_lines(name: str, pairs: str, braces: str, child: Spread, *, openmetrics: bool) -> list[str]:
    """The cumulative buckets, then sum and count."""
    comma = "," if pairs else ""
    found = []
    for bound, total, example in zip(bounds(child), accumulate(child.counts), child.examples, strict=True):
        tail = f' # {{{EXAMPLE}="{example[0]}"}} {example[1]}' if openmetrics and example is not None else ""
        found.append(f'{name}_bucket{{{pairs}{comma}le="{bound}"}} {total}{tail}\n')
    found += [f"{name}_sum{braces} {child.sum}\n", f"{name}_count{braces} {sum(child.counts)}\n"]
    return found


def bounds(child: Spread) -> list[str]:
    """The upper bounds of the buckets as label values, `+Inf` last."""
    return [*map(str, child.bounds), INFINITE]


def samples(family: AnyFamily) -> Iterator[Sample]:
    """All samples of one instrument as values, for readers of the registry itself."""
    for values, child in family.children():
        labels = {label.name: value for label, value in zip(family.labels, values, strict=True)}
        match child:
            case Spread():
                for bound, total in zip(bounds(child), accumulate(child.counts), strict=True):
                    yield f"{family.name}_bucket", {**labels, "le": bound}, total
                yield f"{family.name}_sum", labels, child.sum
                yield f"{family.name}_count", labels, sum(child.counts)
            case Total():
                yield f"{family.name}_count", labels, child.count
                yield f"{family.name}_sum", labels, child.sum
            case _:
                yield family.name, labels, child.value


def escaped(text: str, *, quotes: bool) -> str:
    """Text escaped as both formats require."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n")
    return plain.replace('"', '\\"') if quotes else plain
