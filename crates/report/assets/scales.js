"use strict";
// Converts values to coordinates and back. uPlot sees only linear coordinates: logarithms and nines are
// computed here, so that uPlot never sees the logarithm of zero or an empty range.

const Scales = (() => {
  const LOG_STEPS = [1, 2, 5];
  // 100 % would be at infinity; it is drawn this far behind the last known percentile.
  const END_OF_NINES = 0.08;
  const PADDING = 0.05;
  const HUNDRED = 100;

  const finite = (value) => typeof value === "number" && Number.isFinite(value);

  // Multiples of a nice step within a range.
  const even = (unit, min, max, most) => {
    const step = Units.niceStep(unit, (max - min) / Math.max(1, most));
    const ticks = [];
    const first = Math.ceil(min / step - 1e-9);
    for (let at = first; at * step <= max + step * 1e-9 && ticks.length < 200; at += 1) {
      ticks.push(Number((at * step).toPrecision(12)));
    }
    return ticks;
  };

  const linear = (axis) => ({
    forward: (value) => (finite(value) ? value : null),
    range(min, max, { fromZero, isTight }) {
      if (fromZero || axis.from_zero) [min, max] = [Math.min(min, 0), Math.max(max, 0)];
      if (min === max) {
        const half = min === 0 ? 1 : Math.abs(min) * 0.1;
        return min === 0 ? [0, 1] : [min > 0 ? Math.max(0, min - half) : min - half, max + half];
      }
      if (isTight) return [min, max];
      const room = (max - min) * PADDING;
      const low = min >= 0 && min - room < 0 ? 0 : min - room;
      let high = max <= 0 && max + room > 0 ? 0 : max + room;
      if (axis.unit === "percent" && max <= HUNDRED) high = Math.min(high, HUNDRED);
      return [min === 0 ? 0 : low, high];
    },
    ticks(min, max, most) {
      const values = even(axis.unit, min, max, most);
      const texts = Units.onAxis(axis.unit, values);
      return values.map((value, at) => ({ at: value, text: texts[at] }));
    },
  });

  const logarithmic = (axis) => ({
    forward: (value) => (finite(value) && value > 0 ? Math.log10(value) : null),
    range(min, max, { isTight }) {
      if (max - min < 0.1) return [min - 0.1, max + 0.1];
      const room = isTight ? 0 : (max - min) * PADDING;
      return [min - room, max + room];
    },
    ticks(min, max, most) {
      const values = [];
      for (let power = Math.floor(min); power <= max; power += 1) {
        for (const step of LOG_STEPS) values.push(step * 10 ** power);
      }
      const inside = values.filter((value) => Math.log10(value) >= min - 1e-9 && Math.log10(value) <= max + 1e-9);
      const decades = inside.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
      if (inside.length < 3) {
        // Below one decade, even steps are clearer.
        const values = even(axis.unit, 10 ** min, 10 ** max, most).filter((value) => value > 0);
        const texts = Units.onAxis(axis.unit, values);
        return values.map((value, at) => ({ at: Math.log10(value), text: texts[at] }));
      }
      const every = Math.ceil(decades.length / Math.max(1, most));
      const halves = inside.filter((value) => decades.includes(value) || Number(value.toExponential()[0]) === 5);
      const chosen = [inside, halves].find((ticks) => ticks.length <= most) || decades.filter((_, at) => at % every === 0);
      return chosen.map((value) => ({ at: Math.log10(value), text: Units.short(axis.unit, value) }));
    },
  });

  // Percentiles: 90, 99, 99.9 are at 1, 2, 3.
  const nines = (axis, values) => {
    const nine = (percent) => -Math.log10(1 - percent / HUNDRED);
    const known = values.filter((value) => finite(value) && value >= 0 && value < HUNDRED).map(nine);
    const last = known.reduce((most, value) => Math.max(most, value), 1);
    const end = last + Math.max(0.3, last * END_OF_NINES);
    return {
      forward: (value) => (!finite(value) || value < 0 || value > HUNDRED ? null : value === HUNDRED ? end : nine(value)),
      range: (min, max) => (max - min < 0.01 ? [Math.max(0, min - 0.5), max + 0.5] : [min, max]),
      ticks(min, max, most) {
        const ticks = [{ at: end, text: "100 %" }];
        // The nines first; percentiles between them where they fit.
        for (let power = 1; power <= Math.floor(last + 1e-9); power += 1) {
          const decimals = Math.max(0, power - 2);
          ticks.push({ at: power, text: `${(HUNDRED - 10 ** (2 - power)).toFixed(decimals)} %` });
        }
        for (const percent of [0, 50, 75, 25, 95]) ticks.push({ at: nine(percent), text: `${percent} %` });
        const apart = (max - min) / Math.max(1, most);
        const kept = [];
        for (const tick of ticks) {
          const isInside = tick.at >= min - 1e-9 && tick.at <= max + 1e-9;
          if (isInside && kept.every((other) => Math.abs(other.at - tick.at) >= apart * 0.85)) kept.push(tick);
        }
        return kept.sort((a, b) => a.at - b.at);
      },
    };
  };

  const named = (names) => ({
    forward: (value) => (finite(value) ? value : null),
    range: (min, max, { isTight }) => (isTight ? [min, max] : [-0.6, Math.max(names.length, 1) - 0.4]),
    ticks(min, max) {
      const ticks = names.map((text, at) => ({ at, text }));
      return ticks.filter(({ at }) => at >= min && at <= max);
    },
    names,
  });

  // The scale of an axis for all of `values`.
  const of = (axis, values) => {
    const { scale } = axis;
    if (scale && typeof scale === "object") return named(scale.names);
    if (scale === "log") return logarithmic(axis);
    if (scale === "nines") return nines(axis, values);
    return linear(axis);
  };

  // A value of an axis as text.
  const words = (axis, value) => {
    const { scale } = axis;
    if (scale && typeof scale === "object") return scale.names[Math.round(value)] ?? String(value);
    if (axis.unit === "seconds" && value >= 60) return `${Units.exact("seconds", value)} (${Units.clock(value)})`;
    return Units.exact(axis.unit, value);
  };

  return { of, words };
})();
