"""What a scrape says, as numbers."""

from dataclasses import dataclass
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from tests.support.served import Served

OPENMETRICS = {"accept": "application/openmetrics-text"}


@dataclass(frozen=True)
class Scraped:
    """Samples by name and labels."""

    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]
    kinds: dict[str, str]

    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    def total(self, name: str, **labels: str) -> float:
        """All samples of a name with these labels, added up."""
        wanted = set(labels.items())
        return sum(value for (each, has), value in self.samples.items() if each == name and wanted <= set(has))


def read(text: str, *, openmetrics: bool = False) -> Scraped:
    """A scrape's text, parsed by somebody else's parser."""
    families: Any = (openmetrics_families if openmetrics else text_string_to_metric_families)(text)
    samples, kinds = {}, {}
    for family in families:
        kinds[family.name] = family.type
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, f"{key} comes twice"
            samples[key] = float(sample.value)
    return Scraped(samples, kinds)


async def scrape(served: Served) -> Scraped:
    """What a gateway says now."""
    answer = await served.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    return read(answer.text)
