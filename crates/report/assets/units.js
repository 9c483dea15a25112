"use strict";
// How values are written: short on axes, exact at the pointer, in the same form as in the page's text:
// 1.5 ms, 64 KiB, 12 %.

const Units = (() => {
  const KIBI = 1024;
  const TIMES = [[1e6, " s"], [1e3, " ms"], [1, " us"]];
  const SIZES = [[KIBI ** 4, " TiB"], [KIBI ** 3, " GiB"], [KIBI ** 2, " MiB"], [KIBI, " KiB"], [1, " B"]];
  const COUNTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

  // For each unit: its sizes, and the text after a number on an axis and after an exact value.
  const KINDS = {
    number: { sizes: COUNTS, after: "", exactly: "", label: "" },
    count: { sizes: COUNTS, after: "", exactly: "", label: "" },
    microseconds: { sizes: TIMES, after: "", exactly: "", label: "us" },
    seconds: { sizes: [[1, " s"]], after: "", exactly: "", label: "s" },
    requests_per_sec: { sizes: COUNTS, after: "", exactly: " requests/s", label: "requests/s" },
    bytes: { sizes: SIZES, after: "", exactly: "", label: "bytes" },
    bytes_per_sec: { sizes: SIZES, after: "/s", exactly: "/s", label: "bytes/s" },
    percent: { sizes: [[1, ""]], after: " %", exactly: " %", label: "%" },
    change_percent: { sizes: [[1, ""]], after: " %", exactly: " %", label: "%" },
    segments: { sizes: COUNTS, after: "", exactly: " segments", label: "segments" },
  };
  const WHOLE = new Set(["count", "segments"]);
  // From this time on, seconds are written as minutes: 2:30.
  const MINUTES_FROM_S = 300;

  const kind = (unit) => KINDS[unit] || KINDS.number;
  const sized = (unit, size) => kind(unit).sizes.find(([least]) => size >= least) || kind(unit).sizes.at(-1);

  const decimalsOf = (step) => {
    for (let decimals = 0; decimals < 9; decimals += 1) {
      const scaled = step * 10 ** decimals;
      if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return decimals;
    }
    return 9;
  };

  const grouped = (value, options) => new Intl.NumberFormat("en-US", options).format(value);
  const minus = (text) => text.replace("-", "\u2212");
  const signed = (unit, value, text) => (unit === "change_percent" && value > 0 ? `+${text}` : text);

  // 90 -> 1:30, 3690 -> 1:01:30
  const clock = (seconds) => {
    const whole = Math.round(seconds);
    const two = (number) => String(number).padStart(2, "0");
    const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
  };

  // The texts of an axis, all with the same size and number of decimals.
  const onAxis = (unit, values) => {
    const largest = Math.max(...values.map(Math.abs), 0);
    if (unit === "seconds" && largest >= MINUTES_FROM_S && values.every(Number.isInteger)) return values.map(clock);
    const [size, name] = sized(unit, largest);
    const steps = values.slice(1).map((value, at) => Math.abs(value - values[at]) / size).filter((step) => step > 0);
    const step = steps.length ? Math.min(...steps) : (largest / size || 1);
    const decimals = Math.min(decimalsOf(Number(step.toPrecision(6))), 6);
    return values.map((value) => {
      if (value === 0) return unit === "bytes_per_sec" ? "0" : `0${kind(unit).after}`;
      const text = minus(grouped(value / size, { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
      return `${signed(unit, value, text)}${name}${kind(unit).after}`;
    });
  };

  // A text in few digits: ticks of a logarithmic axis.
  const short = (unit, value) => {
    const [size, name] = sized(unit, Math.abs(value));
    return `${signed(unit, value, minus(grouped(value / size, { maximumSignificantDigits: 3 })))}${name}${kind(unit).after}`;
  };

  // Whole numbers with all digits, others in seven digits.
  const exact = (unit, value) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return "unknown";
    const isTimeOrSize = kind(unit).sizes === TIMES || kind(unit).sizes === SIZES;
    const [size, name] = isTimeOrSize ? sized(unit, Math.abs(value)) : unit === "seconds" ? [1, " s"] : [1, ""];
    // Without the sign of negative zero.
    const scaled = (value || 0) / size;
    const digits = Math.max(7, String(Math.trunc(Math.abs(scaled))).length);
    const text = minus(grouped(scaled, { maximumSignificantDigits: Math.min(digits, 21) }));
    return `${signed(unit, value, text)}${name}${kind(unit).exactly}`;
  };

  // Readable steps between ticks.
  const STEPS = [1, 2, 2.5, 5, 10];
  const SECONDS_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
  const niceStep = (unit, least) => {
    if (!(least > 0) || !Number.isFinite(least)) return 1;
    if (unit === "seconds" && least > 1) return SECONDS_STEPS.find((step) => step >= least) || least;
    if (kind(unit).sizes === SIZES && least > 1) {
      const size = sized(unit, least)[0];
      const within = least / size;
      const step = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((candidate) => candidate >= within);
      return size * (step || 1024);
    }
    const power = 10 ** Math.floor(Math.log10(least));
    const step = power * STEPS.find((candidate) => candidate * power >= least * (1 - 1e-9));
    return WHOLE.has(unit) ? Math.max(1, Math.ceil(step)) : step;
  };

  return { onAxis, short, exact, niceStep, clock, label: (unit) => kind(unit).label };
})();
