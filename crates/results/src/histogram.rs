//! A distribution of times: an HdrHistogram of nanoseconds with exact sums and extremes.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{
    Deserializer as HdrReader, Serializer as _, V2SerializeError, V2Serializer,
};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::summary::{self, Moments};

mod error;
mod packed;

pub use error::{BucketsError, HistogramError};
use packed::PackedBuckets;

/// Three significant digits: a bucket is never wider than 1/1024 of its values.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Parts of each range: 2 * 10^3, rounded up to a power of two, so that the upper half keeps three
/// digits.
const PARTS: u32 = 2048;

/// The smallest possible range.
const UNUSED_NS: u64 = 2;

/// The range from the first sample on: one hour. Larger values make the histogram grow.
const PRESIZED_NS: u64 = 3_600_000_000_000;

/// The highest bucket, 146 years. Larger values are counted in it, but are exact in the sum and the
/// maximum. The bucket arithmetic of `hdrhistogram` is not safe near 2^64.
const HIGHEST_BUCKET_NS: u64 = 1 << 62;

/// A histogram of times in nanoseconds with three significant digits. It accepts every `u64`.
///
/// The first sample allocates memory for values up to one hour; after that, recording such values
/// allocates nothing. In addition to the buckets, the histogram keeps the exact count, minimum,
/// maximum, sum and sum of squares. So mean and standard deviation have no bucket error, and
/// merging in any order gives the same bits.
///
/// A bucket is represented by its highest value, as in HdrHistogram, but never by one outside the
/// exact minimum and maximum.
#[derive(Clone)]
pub struct Histogram {
    /// Those of [`no_buckets`] if there are no samples, or if they are packed.
    buckets: Hdr<u64>,
    packed: Option<PackedBuckets>,
    moments: Moments,
    /// The smallest sample, nanoseconds; `u64::MAX` without samples.
    min_ns: u64,
    max_ns: u64,
}

/// Equal if the same samples were recorded, to within the width of a bucket; the allocated range
/// does not matter.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.moments == other.moments
            && (self.min_ns, self.max_ns) == (other.min_ns, other.max_ns)
            && self.distinct().eq(other.distinct())
    }
}

impl Eq for Histogram {}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// The width of a bucket as a share of its values, at most.
    pub const RESOLUTION: f64 = 1.0 / 1024.0;

    /// An empty histogram. It takes little memory, since many histograms of a run stay empty.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buckets: no_buckets(),
            packed: None,
            moments: Moments::default(),
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Adds one sample, in nanoseconds.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.make_room();
        let recorded = self.buckets.record(value_ns.min(HIGHEST_BUCKET_NS));
        debug_assert!(recorded.is_ok(), "a growing histogram takes every value");
        self.moments.add_one(value_ns);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Makes the buckets before the first sample is recorded.
    #[inline]
    fn make_room(&mut self) {
        if self.buckets.high() < PRESIZED_NS {
            self.make_buckets(PRESIZED_NS);
        }
    }

    /// Makes the buckets, unless there are some with samples.
    #[cold]
    fn make_buckets(&mut self, highest_ns: u64) {
        let packed = self.packed.take();
        if self.is_empty() || packed.is_some() {
            self.buckets = buckets(highest_ns.max(self.max_ns.min(HIGHEST_BUCKET_NS)));
        }
        for (value_ns, count) in packed.iter().flat_map(PackedBuckets::iter) {
            self.record_in_buckets(value_ns, count);
        }
    }

    /// Whether there are buckets, with samples or without.
    fn has_buckets(&self) -> bool {
        self.buckets.sigfig() == SIGNIFICANT_DIGITS
    }

    fn record_in_buckets(&mut self, value_ns: u64, count: u64) {
        let recorded = self
            .buckets
            .record_n(value_ns.min(HIGHEST_BUCKET_NS), count);
        debug_assert!(recorded.is_ok(), "a growing histogram takes every value");
    }

    /// Puts the samples where they need little memory: a few bytes for each bucket that has
    /// some. They can be read as before, more slowly. The next sample unpacks them.
    pub fn pack(&mut self) {
        if self.packed.is_none() && !self.is_empty() {
            self.packed = Some(PackedBuckets::of(self.in_buckets()));
            self.buckets = no_buckets();
        }
    }

    /// Adds the same sample `count` times.
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.make_room();
        self.record_in_buckets(value_ns, count);
        self.moments.add(value_ns, count);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Adds all samples of another histogram, as if they had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        if !self.has_buckets() {
            // The range of the samples is enough; it grows.
            self.make_buckets(other.max_ns.clamp(UNUSED_NS, HIGHEST_BUCKET_NS));
        }
        match &other.packed {
            None => {
                let added = self.buckets.add(&other.buckets);
                debug_assert!(added.is_ok(), "a growing histogram takes every other one");
            }
            Some(packed) => {
                for (value_ns, count) in packed.iter() {
                    self.record_in_buckets(value_ns, count);
                }
            }
        }
        self.moments.merge(&other.moments);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// [`Self::merge`] by value: an empty histogram takes over the memory of `other`.
    pub fn absorb(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else {
            self.merge(&other);
        }
    }

    /// The same samples with those of `taken` replaced by those of `given`. A sample of `taken`
    /// that is not here changes nothing. Sums and extremes are those of the buckets.
    #[must_use]
    pub fn exchanged(&self, taken: &Self, given: &Self) -> Self {
        if taken.is_empty() && given.is_empty() {
            return self.clone();
        }
        let mut left = Self::new();
        let mut taken = taken.distinct().peekable();
        for (value_ns, count) in self.distinct() {
            let mut removed = 0;
            // The same bucket may be represented by different values, because of the extremes.
            while let Some(&(taken_ns, of_taken)) = taken.peek() {
                if is_same_bucket(taken_ns, value_ns) {
                    removed += of_taken;
                } else if taken_ns > value_ns {
                    break;
                }
                taken.next();
            }
            left.record_n(value_ns, count.saturating_sub(removed));
        }
        left.merge(given);
        left
    }

    /// The samples that `earlier`, an earlier state of the same histogram, did not have.
    #[must_use]
    pub fn without(&self, earlier: &Self) -> Self {
        if self.count() == earlier.count() {
            return Self::new();
        }
        self.exchanged(earlier, &Self::new())
    }

    /// Removes all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.clear();
        self.packed = None;
        self.moments = Moments::default();
        self.min_ns = u64::MAX;
        self.max_ns = 0;
    }

    /// Number of samples, recorded here or merged.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments.count
    }

    /// Whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The smallest sample, exact, nanoseconds.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// The largest sample, exact, nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// Sum of all samples, exact, nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.moments.sum
    }

    /// Arithmetic mean of the exact samples, nanoseconds; 0 without samples.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.moments.mean()
    }

    /// Sample standard deviation (n - 1) of the exact samples, nanoseconds; 0 with fewer than two
    /// samples.
    #[must_use]
    pub fn stdev_ns(&self) -> f64 {
        self.moments.stdev()
    }

    /// wrk's "+/- Stdev": the share of samples from mean - stdev to mean + stdev, 0..=100; `None`
    /// without samples. A bucket that overlaps this range counts as within it.
    #[must_use]
    pub fn within_stdev_percent(&self) -> Option<f64> {
        let window = self.moments.window();
        let within = self
            .distinct()
            .filter(|(value_ns, _)| {
                let value_ns = *value_ns as f64;
                value_ns <= *window.end() && value_ns >= *window.start()
            })
            .fold(0_u64, |total, (_, count)| total.saturating_add(count));
        summary::percent(within, self.count())
    }

    /// The value, in nanoseconds, that at least `percent` (0..=100) of the samples do not exceed; 0
    /// without samples. It is the highest value of the lowest bucket whose cumulative count reaches
    /// `ceil(percent / 100 * n)`: at most 1/1024 above the sample of that rank, and never outside
    /// the exact minimum and maximum. 100 gives the exact maximum, 0 the lowest bucket. A `percent`
    /// below 0, or NaN, counts as 0; one above 100 counts as 100.
    #[must_use]
    pub fn value_at_percentile(&self, percent: f64) -> u64 {
        self.values_at_percentiles(&[percent])[0]
    }

    /// [`Self::value_at_percentile`] of each of `percents`, in one pass over the buckets.
    #[must_use]
    pub fn values_at_percentiles(&self, percents: &[f64]) -> Vec<u64> {
        let mut cumulative = Vec::new();
        let mut total = 0_u64;
        for (value_ns, count) in self.distinct() {
            total = total.saturating_add(count);
            cumulative.push((value_ns, total));
        }
        let value_at = |&percent: &f64| {
            if percent >= 100.0 {
                return self.max_ns().unwrap_or(0);
            }
            let rank = summary::rank(percent, self.count());
            let index = cumulative.partition_point(|&(_, up_to)| up_to < rank);
            cumulative.get(index).map_or(0, |&(value_ns, _)| value_ns)
        };
        percents.iter().map(value_at).collect()
    }

    /// The value of the sample with this rank, counted from 1, as precise as
    /// [`Self::value_at_percentile`]; 0 if there are fewer samples.
    pub(crate) fn value_at_rank(&self, rank: u64) -> u64 {
        summary::value_at_rank(self.distinct(), rank).unwrap_or(0)
    }

    /// Values in nanoseconds with their counts, ascending, one for each bucket that has samples.
    /// [`Self::value_at_percentile`] returns these values, and for 100 the exact maximum.
    pub fn distinct(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let buckets = self.raw();
        buckets.map(|(value_ns, count)| (self.shown(value_ns), count))
    }

    /// A value of each bucket that has samples, with their number.
    fn raw(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let packed = self.packed.iter().flat_map(PackedBuckets::iter);
        // There are none if they are packed.
        self.in_buckets().chain(packed)
    }

    fn in_buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// The number of buckets and of sub-buckets, as HdrHistogram counts them.
    #[must_use]
    pub fn layout(&self) -> (u32, u32) {
        let highest_bits = u64::BITS - highest_written_ns(self.max_ns).leading_zeros();
        (highest_bits - PARTS.ilog2() + 1, PARTS)
    }

    /// The buckets in HdrHistogram's compressed V2 encoding, in base64, as in its interval logs.
    ///
    /// # Errors
    /// When a count exceeds 2^63, which the encoding cannot hold.
    pub fn to_v2_deflate_base64(&self) -> Result<String, HistogramError> {
        Ok(BASE64.encode(v2::deflated(&self.to_v2()?)?))
    }

    /// Values with their counts, ascending, of buckets written by [`Self::to_v2_deflate_base64`].
    /// Each value lies between `min_ns` and `max_ns`, the extremes of the samples.
    ///
    /// # Errors
    /// When `text` is not a valid encoding, or contradicts the extremes.
    pub(crate) fn distinct_of_deflated(
        text: &str,
        min_ns: u64,
        max_ns: u64,
    ) -> Result<Vec<(u64, u64)>, HistogramError> {
        let histogram = Self {
            buckets: read_buckets(&Encoded::Deflated(text), max_ns)?,
            packed: None,
            moments: Moments::default(),
            min_ns,
            max_ns,
        };
        if min_ns > max_ns || !histogram.has_extremes() {
            return Err(HistogramError::Extremes);
        }
        Ok(histogram.distinct().collect())
    }

    /// The value that represents the bucket of `value_ns` in a histogram with these extremes.
    pub(crate) fn representative(value_ns: u64, min_ns: u64, max_ns: u64) -> u64 {
        bucket_end(value_ns).clamp(min_ns, max_ns)
    }

    /// The value that represents a bucket, given any value in it.
    fn shown(&self, bucket_ns: u64) -> u64 {
        Self::representative(bucket_ns, self.min_ns, self.max_ns)
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("min_ns", &self.min_ns())
            .field("max_ns", &self.max_ns())
            .field("mean_ns", &self.mean_ns())
            .finish_non_exhaustive()
    }
}

/// The highest value of the bucket of a value.
fn bucket_end(value_ns: u64) -> u64 {
    let value_ns = value_ns.min(HIGHEST_BUCKET_NS);
    let bits = u64::BITS - value_ns.leading_zeros();
    let width_bits = bits.saturating_sub(PARTS.ilog2());
    value_ns | ((1 << width_bits) - 1)
}

/// Whether both values, in nanoseconds, belong to the same bucket.
fn is_same_bucket(one_ns: u64, other_ns: u64) -> bool {
    bucket_end(one_ns) == bucket_end(other_ns)
}

/// Buckets that take almost no memory. Nothing may be recorded in them.
fn no_buckets() -> Hdr<u64> {
    Hdr::new_with_bounds(1, UNUSED_NS, 0).expect("the constants are a valid range")
}

fn buckets(highest_ns: u64) -> Hdr<u64> {
    let mut buckets = Hdr::new_with_bounds(1, highest_ns, SIGNIFICANT_DIGITS)
        .expect("the constants above are a valid range");
    buckets.auto(true);
    buckets
}

/// A saved histogram. Without samples it has only the count. The sums are decimal text, since they
/// can exceed what a JSON number holds exactly.
#[derive(Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(rename = "Histogram"))]
pub(crate) struct WrittenHistogram {
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_ns: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_of_squares_ns2: Option<String>,
    /// The buckets in HdrHistogram's compressed V2 encoding, in base64 with padding.
    #[serde(skip_serializing_if = "Option::is_none")]
    hdr_v2_deflate_base64: Option<String>,
    /// The same, not compressed, in documents of version 1.
    #[serde(skip_serializing)]
    hdr_v2_base64: Option<String>,
}

/// The buckets as a document has them, in base64.
enum Encoded<'a> {
    Deflated(&'a str),
    Plain(&'a str),
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = WrittenHistogram::default();
        if !self.is_empty() {
            let buckets = self.to_v2_deflate_base64().map_err(S::Error::custom)?;
            written = WrittenHistogram {
                count: self.count(),
                min_ns: self.min_ns(),
                max_ns: self.max_ns(),
                sum_ns: Some(self.moments.sum.to_string()),
                sum_of_squares_ns2: Some(self.moments.sum_of_squares.to_string()),
                hdr_v2_deflate_base64: Some(buckets),
                hdr_v2_base64: None,
            };
        }
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_written(&WrittenHistogram::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Offsets of the V2 encoding: cookie, payload length, normalizing offset, digits (4 bytes each),
/// lowest value, highest value, ratio (8 bytes each); then the payload. All big-endian.
mod v2 {
    use std::io::{self, Read, Write};
    use std::ops::Range;

    use flate2::Compression;
    use flate2::read::ZlibDecoder;
    use flate2::write::ZlibEncoder;

    use super::BucketsError;

    pub(super) const COOKIE: Range<usize> = 0..4;
    pub(super) const PAYLOAD_LENGTH: Range<usize> = 4..8;
    pub(super) const DIGITS: Range<usize> = 12..16;
    pub(super) const LOWEST: Range<usize> = 16..24;
    pub(super) const HIGHEST: Range<usize> = 24..32;
    pub(super) const HEADER_LENGTH: usize = 40;
    /// "V2, not compressed", with word size 16.
    pub(super) const COOKIE_BYTES: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
    /// "V2, compressed", with word size 16.
    const DEFLATED_COOKIE_BYTES: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
    /// Maximum length of the decompressed data: 54 times 1024 buckets of at most nine bytes each,
    /// and the header.
    const INFLATED_MAX: u64 = 1 << 20;

    /// Compresses a V2 encoding: cookie, length, and zlib data.
    pub(super) fn deflated(plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain)?;
        let zlib = encoder.finish()?;
        let length = u32::try_from(zlib.len()).map_err(io::Error::other)?;
        let head = [DEFLATED_COOKIE_BYTES, length.to_be_bytes()].concat();
        Ok([head, zlib].concat())
    }

    /// Decompresses a V2 encoding.
    pub(super) fn inflated(bytes: &[u8]) -> Result<Vec<u8>, BucketsError> {
        let (Some(cookie), Some(length), Some(zlib)) =
            (bytes.get(..4), bytes.get(4..8), bytes.get(8..))
        else {
            return Err(BucketsError::Invalid("shorter than its header"));
        };
        if cookie != DEFLATED_COOKIE_BYTES || length != &(zlib.len() as u64).to_be_bytes()[4..] {
            return Err(BucketsError::Invalid("not the deflated V2 encoding"));
        }
        let mut plain = Vec::new();
        let mut decoder = ZlibDecoder::new(zlib).take(INFLATED_MAX + 1);
        let read = decoder.read_to_end(&mut plain);
        read.map_err(BucketsError::Inflate)?;
        if plain.len() as u64 > INFLATED_MAX {
            return Err(BucketsError::Invalid("longer than any valid one"));
        }
        Ok(plain)
    }
}

/// Decodes buckets, with a range up to `max_ns`.
fn read_buckets(encoded: &Encoded<'_>, max_ns: u64) -> Result<Hdr<u64>, HistogramError> {
    let field = match encoded {
        Encoded::Deflated(_) => "hdr_v2_deflate_base64",
        Encoded::Plain(_) => "hdr_v2_base64",
    };
    decoded(encoded, max_ns).map_err(|error| HistogramError::Buckets(field, error))
}

fn decoded(encoded: &Encoded<'_>, max_ns: u64) -> Result<Hdr<u64>, BucketsError> {
    let bytes = match encoded {
        Encoded::Deflated(text) => v2::inflated(&BASE64.decode(text)?),
        Encoded::Plain(text) => Ok(BASE64.decode(text)?),
    };
    let mut bytes = bytes?;
    check_v2(&bytes)?;
    // The written range is one hour. Hundreds of histograms that were read are in memory at once,
    // most of them empty or with times of milliseconds, so each gets only the range of its samples.
    // It grows when larger samples are added.
    let range_ns = max_ns.clamp(UNUSED_NS, HIGHEST_BUCKET_NS);
    bytes[v2::HIGHEST].copy_from_slice(&range_ns.to_be_bytes());
    let mut buckets: Hdr<u64> = HdrReader::new().deserialize(&mut bytes.as_slice())?;
    buckets.auto(true);
    Ok(buckets)
}

impl Histogram {
    /// The buckets in HdrHistogram's V2 encoding, not compressed.
    fn to_v2(&self) -> Result<Vec<u8>, V2SerializeError> {
        let mut bytes = Vec::new();
        let unpacked;
        let buckets = if !self.has_buckets() {
            let mut copy = self.clone();
            copy.make_buckets(self.max_ns.clamp(UNUSED_NS, HIGHEST_BUCKET_NS));
            unpacked = copy.buckets;
            &unpacked
        } else {
            &self.buckets
        };
        V2Serializer::new().serialize(buckets, &mut bytes)?;
        // The range depends on the order of recording and merging, but the output must depend on
        // the samples alone.
        bytes[v2::HIGHEST].copy_from_slice(&highest_written_ns(self.max_ns).to_be_bytes());
        Ok(bytes)
    }

    fn from_written(written: &WrittenHistogram) -> Result<Self, HistogramError> {
        let of_buckets = |encoded| read_buckets(&encoded, written.max_ns.unwrap_or(0));
        let buckets = match (&written.hdr_v2_deflate_base64, &written.hdr_v2_base64) {
            (Some(text), None) => of_buckets(Encoded::Deflated(text))?,
            (None, Some(text)) => of_buckets(Encoded::Plain(text))?,
            (None, None) => no_buckets(),
            (Some(_), Some(_)) => return Err(HistogramError::TwoBuckets),
        };
        let sum = |name, text: &Option<String>| match text {
            Some(text) => parse_sum(name, text),
            None => Ok(0),
        };
        let moments = Moments {
            count: written.count,
            sum: sum("sum_ns", &written.sum_ns)?,
            sum_of_squares: sum("sum_of_squares_ns2", &written.sum_of_squares_ns2)?,
        };
        let (min_ns, max_ns) = match (written.min_ns, written.max_ns) {
            (Some(min_ns), Some(max_ns)) => (min_ns, max_ns),
            (None, None) => (u64::MAX, 0),
            _ => return Err(HistogramError::OneExtreme),
        };
        let histogram = Self {
            buckets,
            packed: None,
            moments,
            min_ns,
            max_ns,
        };
        histogram.check_consistent()?;
        Ok(histogram)
    }

    /// Checks the exact figures against the buckets: a contradiction would make later results
    /// wrong.
    fn check_consistent(&self) -> Result<(), HistogramError> {
        if self.buckets.len() != self.count() {
            let (inside, count) = (self.buckets.len(), self.count());
            return Err(HistogramError::Count(count, inside));
        }
        let extremes = if self.is_empty() {
            self.min_ns == u64::MAX && self.max_ns == 0 && self.moments == Moments::default()
        } else {
            self.min_ns <= self.max_ns && self.has_extremes()
        };
        let lowest_sum = u128::from(self.count()) * u128::from(self.min_ns);
        let highest_sum = u128::from(self.count()) * u128::from(self.max_ns);
        let sums = self.is_empty() || (lowest_sum..=highest_sum).contains(&self.moments.sum);
        if extremes && sums {
            Ok(())
        } else {
            Err(HistogramError::Figures)
        }
    }

    /// Whether the exact extremes are in the lowest and the highest bucket with samples.
    fn has_extremes(&self) -> bool {
        let same = |exact_ns: u64, bucket: Option<(u64, u64)>| {
            bucket.is_some_and(|(value_ns, _)| is_same_bucket(exact_ns, value_ns))
        };
        same(self.min_ns, self.raw().next()) && same(self.max_ns, self.raw().last())
    }
}

/// The range to write for a histogram with this maximum: [`PRESIZED_NS`], or one less than the next
/// power of two if the maximum is larger.
fn highest_written_ns(max_ns: u64) -> u64 {
    let bucketed = max_ns.min(HIGHEST_BUCKET_NS);
    if bucketed <= PRESIZED_NS {
        PRESIZED_NS
    } else {
        u64::MAX >> bucketed.leading_zeros()
    }
}

fn parse_sum(field: &'static str, text: &str) -> Result<u128, HistogramError> {
    text.parse()
        .map_err(|_| HistogramError::Sum(field, text.to_owned()))
}

/// Rejects input for which the V2 reader would fail or allocate without bound, and input that this
/// type never writes.
fn check_v2(bytes: &[u8]) -> Result<(), BucketsError> {
    let refuse = |why| Err(BucketsError::Invalid(why));
    let Some(payload) = bytes.get(v2::HEADER_LENGTH..) else {
        return refuse("shorter than its header");
    };
    if bytes[v2::COOKIE] != v2::COOKIE_BYTES {
        return refuse("not the V2 encoding");
    }
    if bytes[v2::PAYLOAD_LENGTH] != (payload.len() as u64).to_be_bytes()[4..] {
        return refuse("the payload's length is not as stated");
    }
    if bytes[v2::DIGITS] != u32::from(SIGNIFICANT_DIGITS).to_be_bytes()
        || bytes[v2::LOWEST] != 1_u64.to_be_bytes()
    {
        return refuse("not in nanoseconds with three significant digits");
    }
    let mut highest = [0; 8];
    highest.copy_from_slice(&bytes[v2::HIGHEST]);
    if !(PRESIZED_NS..=u64::MAX >> 1).contains(&u64::from_be_bytes(highest)) {
        return refuse("the range is not a valid one");
    }
    // Nine bytes of ones are a run of zeros whose length cannot be negated.
    if payload.windows(9).any(|window| window == [0xff; 9]) {
        return refuse("a count is out of range");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_histogram_is_the_same_and_goes_on_as_if_it_were_not() {
        let mut random = fastrand_like(3);
        for samples in [1, 2, 300, 20_000] {
            let mut open = Histogram::new();
            for _ in 0..samples {
                open.record(random() >> (random() % 63));
            }
            let mut packed = open.clone();
            packed.pack();
            packed.pack();
            assert_eq!(packed, open);
            assert_eq!(packed.to_v2().unwrap(), open.to_v2().unwrap());
            let percents = [0.0, 1.0, 50.0, 99.0, 100.0];
            assert_eq!(
                packed.values_at_percentiles(&percents),
                open.values_at_percentiles(&percents)
            );
            assert_eq!(packed.within_stdev_percent(), open.within_stdev_percent());
            let mut merged = Histogram::new();
            merged.merge(&packed);
            assert_eq!(merged, open);
            let mut onto = packed.clone();
            onto.merge(&packed);
            let mut twice = open.clone();
            twice.merge(&open);
            assert_eq!(onto, twice);
            for histogram in [&mut packed, &mut open] {
                histogram.record(5_000_000);
                histogram.record_n(7, 3);
            }
            assert_eq!(packed, open);
        }
        let mut empty = Histogram::new();
        empty.pack();
        assert_eq!(empty, Histogram::new());
        empty.record(1);
        assert_eq!(empty.count(), 1);
    }

    /// A sequence of numbers that look random.
    fn fastrand_like(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state ^ (state >> 31)
        }
    }

    #[test]
    fn many_packed_histograms_take_little_memory() {
        let mut histogram = Histogram::new();
        for value_us in 0..10_000_u64 {
            histogram.record(1_000_000 + value_us * value_us);
        }
        let buckets = histogram.distinct().count();
        histogram.pack();
        let bytes = histogram.packed.as_ref().map_or(0, PackedBuckets::bytes);
        assert!(bytes <= 3 * buckets, "{bytes} for {buckets}");
        assert!(histogram.buckets.distinct_values() < 8);
        assert!(Histogram::new().buckets.distinct_values() < 8);
    }

    #[test]
    fn a_histogram_that_was_read_allocates_only_the_range_of_its_samples() {
        let read = |histogram: &Histogram| -> Histogram {
            let json = serde_json::to_string(histogram).expect("it is written");
            serde_json::from_str(&json).expect("it is read")
        };
        let mut histogram = Histogram::new();
        assert!(read(&histogram).buckets.high() < 4_096);
        histogram.record(1_000_000);
        assert!(histogram.buckets.high() >= PRESIZED_NS);
        let mut again = read(&histogram);
        assert!((1_000_000..4_000_000).contains(&again.buckets.high()));
        again.record(PRESIZED_NS);
        assert_eq!((again.count(), again.max_ns()), (2, Some(PRESIZED_NS)));
    }
}
