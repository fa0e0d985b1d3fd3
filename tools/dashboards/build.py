"""From a board to Grafana's JSON, by Grafana's own typed builders: what they accept is what Grafana reads."""

from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import StackingMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

from tools.dashboards.boards import Board, Panel, Query

FOLDER = Path(__file__).resolve().parents[2] / "metrics" / "dashboards"
SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
WIDTH, HEIGHT = 12, 8


def text_of(board: Board) -> str:
    """As it is committed."""
    return JSONEncoder(sort_keys=True, indent=1).encode(built(board).build()) + "\n"


def built(board: Board) -> dashboard.Dashboard:
    """One dashboard with its two variables: where the data is, and which providers."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.text)
        .tags(["ostler"])
        .refresh("10s")
        .time("now-1h", "now")
        .with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("provider")
            .label("Provider")
            .query("label_values(ostler_pool_processes, provider)")
            .datasource(SOURCE)
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
    )
    for panel in board.panels:
        made.with_panel(number(panel) if panel.number else lines(panel))
    return made


def lines(panel: Panel) -> timeseries.Panel:
    """Over time."""
    shown = timeseries.Panel().title(panel.title).description(panel.text).unit(panel.unit)
    shown.datasource(SOURCE).span(WIDTH).height(HEIGHT).fill_opacity(15 if panel.stacked else 0).min(0)
    if panel.stacked:
        shown.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for place, query in enumerate(panel.queries):
        shown.with_target(target(query, place))
    return shown


def number(panel: Panel) -> stat.Panel:
    """The latest."""
    shown = stat.Panel().title(panel.title).description(panel.text).unit(panel.unit)
    shown.datasource(SOURCE).span(WIDTH // 2).height(HEIGHT // 2)
    for place, query in enumerate(panel.queries):
        shown.with_target(target(query, place))
    return shown


def target(query: Query, place: int) -> prometheus.Dataquery:
    """One query."""
    made = prometheus.Dataquery().expr(query.expr).legend_format(query.legend or "__auto").ref_id(chr(ord("A") + place))
    return made.datasource(SOURCE).exemplar("histogram_quantile" in query.expr)
