"""Decodes requests of OTLP with the classes that OpenTelemetry generates from its own definitions.

Arguments: files, whose names end with the path of the request. Prints a JSON array with the request
of each.
"""

import gzip
import json
import sys

from google.protobuf.json_format import MessageToDict
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)


def check(message):
    """A field that the definitions do not have is a mistake."""
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    if unknown:
        sys.exit(f"{message.DESCRIPTOR.full_name}: unknown fields {unknown}")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if hasattr(value, "__len__") else [value]:
                check(inner)


requests = []
for path in sys.argv[1:]:
    kind = ExportMetricsServiceRequest if path.endswith("metrics") else ExportLogsServiceRequest
    with open(path, "rb") as file:
        data = file.read()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    request = kind.FromString(data)
    check(request)
    requests.append(MessageToDict(request))
json.dump(requests, sys.stdout)
