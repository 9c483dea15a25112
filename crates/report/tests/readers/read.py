"""Reads a file with the packages of others and prints what they made of it, as JSON.

read.py csv|junit|hlog FILE [SCHEMA]
"""

import csv
import json
import sys


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    requests = [row for row in rows if row["metric"] == "requests"]
    return {
        "rows": len(rows),
        "ragged": sum(1 for row in rows if None in row or None in row.values()),
        "levels": [row["buffers"] for row in requests],
        "requests": sum(float(row["value"]) for row in requests),
    }


def read_junit(path, schema=None):
    from junitparser import JUnitXml

    if schema:
        import xmlschema

        xmlschema.XMLSchema(schema).validate(path)
    document = JUnitXml.fromfile(path)
    cases = [case for suite in document for case in suite]
    kinds = [type(result).__name__ for case in cases for result in case.result]
    return {
        "suites": [suite.name for suite in document],
        "cases": len(cases),
        "told": [document.tests, document.failures, document.errors],
        "failures": kinds.count("Failure"),
        "errors": kinds.count("Error"),
        "messages": [result.message for case in cases for result in case.result],
    }


def read_hlog(path):
    from hdrh.histogram import HdrHistogram
    from hdrh.log import HistogramLogReader

    reader = HistogramLogReader(path, HdrHistogram(1, 3_600_000_000_000, 3))
    tags = {}
    while True:
        histogram = reader.get_next_interval_histogram()
        if histogram is None:
            break
        tag = histogram.get_tag() or ""
        tags[tag] = tags.get(tag, 0) + histogram.get_total_count()
    return {"tags": tags}


READERS = {
    "csv": read_csv,
    "junit": read_junit,
    "hlog": read_hlog,
}

if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    json.dump(READERS[kind](*arguments), sys.stdout)
