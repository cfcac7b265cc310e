import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mesh_status_server import Kind, Metric, Sample, counter, gauge, render

names = st.from_regex(r"[a-z][a-z_]{0,20}[a-z]", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n"\\{},= '))
values = st.floats(allow_nan=False) | st.integers(-(2**53), 2**53)


@given(
    name=names,
    kind=st.sampled_from([Kind.COUNTER, Kind.GAUGE]),
    text=texts,
    samples=st.lists(
        st.builds(lambda v, t: (v, {"path": t, "type": "a"}), values, texts), min_size=1
    ),
)
def test_prometheus_reads_what_was_written(
    name: str, kind: Kind, text: str, samples: list[tuple[float, dict[str, str]]]
) -> None:
    family = Metric(
        name=name,
        kind=kind,
        text=text,
        samples=tuple(Sample(value=value, labels=labels) for value, labels in samples),
    )
    (read,) = text_string_to_metric_families(render([family]).decode())
    assert (read.name, read.type) == (name, kind)
    assert [(each.value, each.labels) for each in read.samples] == samples


def test_a_value_without_labels_is_one_line() -> None:
    assert render([gauge("up", "Whether.", 1)]) == b"# HELP up Whether.\n# TYPE up gauge\nup 1\n"


def test_a_family_without_samples_is_left_out() -> None:
    nothing = Metric(name="a", kind=Kind.GAUGE, text="b", samples=())
    assert render([nothing]) == b""


def test_infinity_and_large_numbers_are_read_back() -> None:
    text = render([gauge("a", "b", math.inf), counter("c_total", "d", 10**15)]).decode()
    first, second = text_string_to_metric_families(text)
    assert [first.samples[0].value, second.samples[0].value] == [math.inf, 10**15]


def test_a_histogram_is_read_as_one() -> None:
    samples = (
        Sample(value=1, labels={"le": "0.1"}, suffix="_bucket"),
        Sample(value=2, labels={"le": "+Inf"}, suffix="_bucket"),
        Sample(value=0.5, suffix="_sum"),
        Sample(value=2, suffix="_count"),
    )
    family = Metric(name="seconds", kind=Kind.HISTOGRAM, text="Time.", samples=samples)

    (read,) = text_string_to_metric_families(render([family]).decode())

    assert (read.name, read.type) == ("seconds", "histogram")
    assert [(each.name, each.value) for each in read.samples] == [
        ("seconds_bucket", 1),
        ("seconds_bucket", 2),
        ("seconds_sum", 0.5),
        ("seconds_count", 2),
    ]
