"use strict";
// Prepares a chart's data for drawing: coordinates, ranges, and which marks belong together.

const Prepare = (() => {
  // Marks with one value for each x.
  const ALONG_X = new Set(["line", "step", "area", "bars", "band"]);
  const TO_THE_EDGE = new Set(["line", "step", "area", "band", "span"]);
  const FROM_ZERO = new Set(["bars", "area"]);
  const EDGE = 0.03;

  // The smallest distance between neighbours; 1 without neighbours.
  const leastGap = (values) => {
    const sorted = [...new Set(values)].sort((a, b) => a - b);
    const gaps = sorted.slice(1).map((value, at) => value - sorted[at]);
    return gaps.length ? gaps.reduce((least, gap) => Math.min(least, gap)) : 1;
  };

  const extent = (values) => {
    let [min, max] = [Infinity, -Infinity];
    for (const value of values) {
      if (value === null) continue;
      if (value < min) min = value;
      if (value > max) max = value;
    }
    return min <= max ? [min, max] : null;
  };

  const axisOf = (chart, side) => (side === "right" && chart.y_right ? chart.y_right : chart.y);

  const chart = (data) => {
    const scales = { x: Scales.of(data.x, data.marks.flatMap((marks) => marks.x)) };
    for (const side of ["left", "right"]) {
      const values = data.marks.filter((marks) => marks.side === side).flatMap((marks) => [...marks.y, ...marks.low, ...marks.high]);
      scales[side] = Scales.of(axisOf(data, side), values);
    }
    const lines = data.marks.filter((marks) => marks.mark === "line" || marks.mark === "step");
    const barMarks = data.marks.filter((marks) => marks.mark === "bars");
    const barStep = leastGap(barMarks.flatMap((marks) => marks.x.map(scales.x.forward)).filter((x) => x !== null));
    const prepared = data.marks.map((marks, order) => {
      const y = scales[marks.side];
      const nothing = marks.x.map(() => null);
      const coordinates = (values) => (values.length ? values.map(y.forward) : nothing);
      return {
        ...marks,
        data: marks,
        axis: axisOf(data, marks.side),
        xs: marks.x.map(scales.x.forward),
        ys: coordinates(marks.y),
        lows: coordinates(marks.low),
        highs: coordinates(marks.high),
        untils: (marks.until || []).map(scales.x.forward),
        isSpan: marks.mark === "span",
        order,
        // After the last colour they repeat with other shapes and dashes.
        shape: marks.color + Math.floor(marks.color / Theme.SERIES),
        is_dashed: marks.is_dashed || marks.color >= Theme.SERIES,
        hasCompany: lines.length > 1,
        isAlongX: ALONG_X.has(marks.mark),
        bars: barMarks.length,
        barOrder: barMarks.indexOf(marks),
        barStep,
        baseline: y.forward(0),
        isShown: true,
      };
    });
    return { data, scales, marks: prepared };
  };

  // The whole range of x, including hidden marks.
  const rangeX = ({ data, scales, marks }) => {
    const all = extent(marks.flatMap(({ xs, ys, lows, highs }) => xs.filter((_, at) => ys[at] !== null || (lows[at] !== null && highs[at] !== null))));
    if (all === null) return null;
    const isNamed = typeof data.x.scale === "object";
    if (isNamed) return scales.x.range(...all, {});
    if (all[0] === all[1]) return scales.x.range(...all, {});
    if (marks.every(({ mark }) => TO_THE_EDGE.has(mark))) return scales.x.range(...all, { isTight: true });
    const bars = marks.filter(({ mark }) => mark === "bars");
    const room = Math.max((all[1] - all[0]) * EDGE, bars.length ? bars[0].barStep * 0.6 : 0);
    const [min, max] = scales.x.range(...all, { isTight: true });
    return [min - room, max + room];
  };

  // The range of an axis for the visible marks between two coordinates of x.
  const rangeY = ({ scales, marks }, side, [from, to]) => {
    const shown = marks.filter((one) => one.side === side && one.isShown);
    const within = (isInside) => extent(shown.flatMap(({ xs, ys, lows, highs }) => xs.flatMap((x, at) => (x !== null && isInside(x) ? [ys[at], lows[at], highs[at]] : []))));
    const found = within((x) => x >= from && x <= to) || within(() => true);
    if (found === null) return scales[side].range(0, 1, {});
    return scales[side].range(...found, { fromZero: shown.some(({ mark }) => FROM_ZERO.has(mark)) });
  };

  return { chart, rangeX, rangeY, extent };
})();
