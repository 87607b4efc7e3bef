"""``/metrics``, read by Prometheus' own parser."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers.running_server import running, small_model


@pytest.mark.slow
def test_numbers_are_those_of_the_requests():
    with running(small_model("softmax")) as served:
        assert served.complete([5, 6, 7], max_tokens=4).status_code == 200
        assert served.complete([]).status_code == 400
        answer = served.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert {name: family.type for name, family in families.items() if not name.endswith("_created")} == {
        "nextword_requests": "counter", "nextword_request_seconds": "histogram", "nextword_requests_active": "gauge",
        "nextword_tokens": "counter", "nextword_requests_batched": "gauge", "nextword_cache_free_ratio": "gauge",
    }  # fmt: skip
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert found["nextword_requests_total", "/v1/completions", "200"] == 1
    assert found["nextword_requests_total", "/v1/completions", "400"] == 1
    assert found["nextword_tokens_total", "prompt"] == 3
    assert found["nextword_tokens_total", "answer"] == 4
    assert found["nextword_request_seconds_count", "/v1/completions"] == 2
    assert found["nextword_request_seconds_bucket", "+Inf", "/v1/completions"] == 2
    assert found["nextword_requests_batched",] == 0
    assert found["nextword_cache_free_ratio",] == 1
