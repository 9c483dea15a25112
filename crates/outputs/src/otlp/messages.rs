//! The messages of OTLP that are sent and received: those of opentelemetry-proto 1.x that a run
//! needs, with its field numbers. Fields that are never set are left out.

/// `ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metrics: Vec<Metric>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Metric {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    #[prost(string, tag = "3")]
    pub(crate) unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 10")]
    pub(crate) data: Option<Data>,
}

/// The points of a metric, and what they are.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "10")]
    Histogram(ExponentialHistogram),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(crate) points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub(crate) points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) temporality: i32,
    #[prost(bool, tag = "3")]
    pub(crate) is_monotonic: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExponentialHistogram {
    #[prost(message, repeated, tag = "1")]
    pub(crate) points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) temporality: i32,
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: each point has everything since its start, so that a lost
/// one costs nothing but its moment.
pub(crate) const CUMULATIVE: i32 = 2;

/// `DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`: the series has ended.
pub(crate) const NO_RECORDED_VALUE: u32 = 1;

/// `NumberDataPoint`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NumberPoint {
    #[prost(message, repeated, tag = "7")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    pub(crate) start_unix_ns: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_ns: u64,
    #[prost(oneof = "Number", tags = "4, 6")]
    pub(crate) value: Option<Number>,
    #[prost(uint32, tag = "8")]
    pub(crate) flags: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub(crate) enum Number {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

/// `ExponentialHistogramDataPoint`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HistogramPoint {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    pub(crate) start_unix_ns: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_ns: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(crate) sum: Option<f64>,
    #[prost(sint32, tag = "6")]
    pub(crate) scale: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) zero_count: u64,
    #[prost(message, optional, tag = "8")]
    pub(crate) positive: Option<Buckets>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) exemplars: Vec<Exemplar>,
    #[prost(double, optional, tag = "12")]
    pub(crate) min: Option<f64>,
    #[prost(double, optional, tag = "13")]
    pub(crate) max: Option<f64>,
}

/// A sample with its trace.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Exemplar {
    #[prost(fixed64, tag = "2")]
    pub(crate) time_unix_ns: u64,
    #[prost(double, tag = "3")]
    pub(crate) value: f64,
    /// 16 bytes, the most significant one first.
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) trace_id: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Buckets {
    #[prost(sint32, tag = "1")]
    pub(crate) offset: i32,
    #[prost(uint64, repeated, tag = "2")]
    pub(crate) counts: Vec<u64>,
}

/// `ExportLogsServiceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LogsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub(crate) time_unix_ns: u64,
    #[prost(fixed64, tag = "11")]
    pub(crate) observed_unix_ns: u64,
    #[prost(int32, tag = "2")]
    pub(crate) severity: i32,
    #[prost(message, optional, tag = "5")]
    pub(crate) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(string, tag = "12")]
    pub(crate) event_name: String,
}

/// `SEVERITY_NUMBER_INFO`.
pub(crate) const SEVERITY_INFO: i32 = 9;

/// `SEVERITY_NUMBER_WARN`.
pub(crate) const SEVERITY_WARN: i32 = 13;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4")]
    pub(crate) value: Option<Value>,
}

/// What an attribute may be here.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
}

impl From<Value> for AnyValue {
    fn from(value: Value) -> Self {
        Self { value: Some(value) }
    }
}

/// `ExportMetricsServiceResponse` and `ExportLogsServiceResponse`, which have the same form.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PartialSuccess {
    /// Points or records that were not taken.
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

/// `google.rpc.Status`, the body of a response that is an error.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}
