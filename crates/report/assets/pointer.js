"use strict";
// Finds, marks, shows and announces the values under the pointer, or under the cursor of the arrow keys.

const Pointer = (() => {
  // Largest distance of the pointer from a point, and from a value at the same x, in CSS pixels.
  const POINT_NEAR = 28;
  const X_NEAR = 40;
  const SAME_X = 12;
  const SPAN_NEAR = 3;
  const ROWS_MAX = 14;
  const SPOKEN_MAX = 8;
  const PAGE = 10;

  const announcer = document.getElementById("announcer");
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  let tipOf = null;

  // The index of the value nearest to `at` in ascending values that may hold nulls.
  const nearest = (values, at) => {
    let [best, distance] = [-1, Infinity];
    let [low, high] = [0, values.length - 1];
    while (high - low > 64) {
      const middle = (low + high) >> 1;
      if (values[middle] === null) break;
      if (values[middle] < at) low = Math.max(0, middle - 1);
      else high = middle + 1;
    }
    for (let index = low; index <= Math.min(high, values.length - 1); index += 1) {
      if (values[index] === null) continue;
      const away = Math.abs(values[index] - at);
      if (away < distance) [best, distance] = [index, away];
    }
    return best;
  };

  const isStep = ({ mark }) => mark === "step" || mark === "area";

  // For steps, the value that holds at x: the last one before it.
  const holding = (marks, at) => {
    const index = nearest(marks.xs, at);
    return index > 0 && marks.xs[index] > at ? index - 1 : index;
  };

  const hit = (view, marks, index) => {
    const { u } = view;
    const shift = marks.mark === "bars" ? Draw.barPlace(Draw.pen(u), marks).shift : 0;
    const isBand = marks.mark === "band";
    const y = isBand ? marks.highs[index] : marks.ys[index];
    if (marks.xs[index] === null || y === null || (isBand && marks.lows[index] === null)) return null;
    const x = u.valToPos(marks.xs[index], "x");
    return { marks, index, x, left: x + shift, top: u.valToPos(y, marks.side) };
  };

  // A span is hit between its ends; by the keyboard at its start.
  const hitSpan = (view, marks, index, left) => {
    const { u } = view;
    const [from, to] = [marks.xs[index], marks.untils[index]];
    if (from === null || to === null) return null;
    const [begin, end] = [u.valToPos(from, "x"), u.valToPos(to, "x")];
    const isHit = left === undefined || (left >= begin - SPAN_NEAR && left <= end + SPAN_NEAR);
    return isHit ? { marks, index, x: begin, left: begin, top: u.over.clientHeight } : null;
  };

  const spansAt = (view, left) => view.marks.filter((marks) => marks.isShown && marks.isSpan)
    .flatMap((marks) => marks.xs.map((_, index) => hitSpan(view, marks, index, left)).filter(Boolean).slice(0, 1));

  const isInside = (view, { left }) => left >= -1 && left <= view.u.over.clientWidth + 1;

  // The hits of a pointer: the point it is on, or all values at one x, and the spans around it.
  const find = (view, left, top) => [...findPoints(view, left, top), ...spansAt(view, left)];

  const findPoints = (view, left, top) => {
    const at = view.u.posToVal(left, "x");
    const shown = view.marks.filter((marks) => marks.isShown && !marks.isSpan);
    let point = null;
    for (const marks of shown.filter((one) => !one.isAlongX)) {
      for (let index = 0; index < marks.xs.length; index += 1) {
        const one = hit(view, marks, index);
        if (!one) continue;
        const away = Math.hypot(one.left - left, one.top - top);
        if (away <= (point ? point.away : POINT_NEAR)) point = { ...one, away };
      }
    }
    if (point) return [point];
    const over = shown.filter((one) => one.isAlongX);
    // Bins of a distribution are hit from edge to edge; steps next to lines are read like lines.
    const onlySteps = over.every(isStep);
    const found = over.map((marks) => ({ marks, index: onlySteps ? holding(marks, at) : nearest(marks.xs, at) }));
    const hits = found.filter(({ index }) => index >= 0).map(({ marks, index }) => hit(view, marks, index)).filter(Boolean);
    return onlySteps ? hits : overOneX(hits.filter((one) => isInside(view, one)), left);
  };

  // The hits at the nearest x, or within the pointer's precision of it.
  const overOneX = (hits, left) => {
    const away = (one) => Math.abs(one.x - left);
    const closest = hits.reduce((best, one) => (best && away(best) <= away(one) ? best : one), null);
    if (!closest || away(closest) > X_NEAR) return [];
    return hits.filter((one) => Math.abs(one.x - closest.x) <= SAME_X).sort((a, b) => away(a) - away(b));
  };

  const valueOf = ({ marks, index }) => {
    const words = (value) => Scales.words(marks.axis, value);
    const { data } = marks;
    if (marks.isSpan) return data.labels[index] || "";
    const [low, high] = [data.low[index], data.high[index]];
    const ends = low !== null && low !== undefined && high !== null && high !== undefined ? `${words(low)} to ${words(high)}` : "";
    if (marks.mark === "band") return ends;
    const value = words(data.y[index]);
    return ends ? `${value} (${ends})` : value;
  };

  const xOf = ({ marks, index }) => marks.data.x[index];

  // The label of a point, and its x if it differs from that of the first hit.
  const labelOf = (view, one, first) => {
    if (one.marks.isSpan) return "";
    const label = one.marks.labels[one.index] || "";
    const isElsewhere = xOf(one) !== xOf(first) && typeof view.data.x.scale !== "object";
    return isElsewhere ? [`at ${Scales.words(view.data.x, xOf(one))}`, label].filter(Boolean).join(", ") : label;
  };

  const titleOf = (view, hits) => {
    const { x } = view.data;
    const words = Scales.words(x, xOf(hits[0]));
    return typeof x.scale === "object" || !x.label ? words : `${x.label}: ${words}`;
  };

  const element = (name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    return made;
  };

  const showTip = (view, hits, left, top) => {
    tip.replaceChildren(element("p", "tip-title", titleOf(view, hits)));
    const [first] = hits;
    // From top to bottom, as in the chart.
    const rows = hits.slice(0, ROWS_MAX).sort((a, b) => a.top - b.top);
    for (const one of rows) {
      const row = element("p", "tip-row", "");
      const sign = element("span", "tip-sign", "");
      sign.style.background = Theme.css(one.marks.color);
      row.append(sign, element("span", "tip-name", one.marks.name), element("span", "tip-value", valueOf(one)));
      tip.append(row);
      const label = labelOf(view, one, first);
      if (label) tip.append(element("p", "tip-label", label));
    }
    if (hits.length > rows.length) tip.append(element("p", "tip-label", `and ${hits.length - rows.length} more`));
    tip.hidden = false;
    tipOf = view;
    const frame = view.u.over.getBoundingClientRect();
    const [x, y] = [frame.left + left, frame.top + top];
    const { offsetWidth: width, offsetHeight: height } = tip;
    const right = x + 16 + width <= innerWidth - 8;
    tip.style.left = `${Math.max(8, right ? x + 16 : x - 16 - width)}px`;
    tip.style.top = `${Math.max(8, Math.min(y - height / 2, innerHeight - height - 8))}px`;
  };

  const hideTip = (view) => {
    if (tipOf !== view) return;
    tip.hidden = true;
    tipOf = null;
  };

  const showPoints = (view, hits) => {
    const wanted = hits.filter((one) => !one.marks.isSpan).slice(0, ROWS_MAX);
    while (view.points.length < wanted.length) {
      const point = element("div", "at", "");
      view.u.over.append(point);
      view.points.push(point);
    }
    view.points.forEach((point, at) => {
      const one = wanted[at];
      point.hidden = !one;
      if (!one) return;
      point.style.left = `${one.left}px`;
      point.style.top = `${one.top}px`;
      point.style.color = Theme.css(one.marks.color);
    });
  };

  // Called by uPlot when the pointer moves over this chart or one of its group.
  const moved = (view) => {
    const { u } = view;
    if (!u || !view.points) return;
    const { left, top } = u.cursor;
    const isOver = u.cursor.event != null;
    if (left < 0 || left === undefined) {
      showPoints(view, []);
      hideTip(view);
      return;
    }
    if (view.stop) return;
    const hits = isOver ? find(view, left, top) : find(view, left, -1e4);
    showPoints(view, hits);
    if (isOver && hits.length) showTip(view, hits, left, top);
    else hideTip(view);
  };

  // Stops of the arrow keys: each x with values; in charts of points, each point.
  const stops = (view) => {
    const shown = view.marks.filter((marks) => marks.isShown);
    const all = shown.flatMap((marks) => marks.xs.map((_, index) => (marks.isSpan ? hitSpan : hit)(view, marks, index)).filter((one) => one && isInside(view, one)));
    if (!shown.some((marks) => marks.isAlongX)) {
      return all.sort((a, b) => a.left - b.left || a.marks.order - b.marks.order || b.top - a.top).map((one) => [one]);
    }
    const found = [];
    for (const one of all.sort((a, b) => a.left - b.left || a.marks.order - b.marks.order)) {
      const last = found.at(-1);
      const isSame = last && one.marks.data.x[one.index] === last[0].marks.data.x[last[0].index];
      if (isSame) last.push(one);
      else found.push([one]);
    }
    return found;
  };

  const spoken = (view, hits) => {
    const parts = hits.slice(0, SPOKEN_MAX).map((one) => [one.marks.name, valueOf(one), labelOf(view, one, hits[0])].filter(Boolean).join(" "));
    if (hits.length > SPOKEN_MAX) parts.push(`and ${hits.length - SPOKEN_MAX} more`);
    return `${titleOf(view, hits)}. ${parts.join("; ")}`;
  };

  const goTo = (view, at) => {
    const halts = stops(view);
    if (!halts.length) return;
    view.stop = { at: Math.max(0, Math.min(at, halts.length - 1)) };
    const hits = halts[view.stop.at];
    const [{ left, top }] = hits;
    view.u.setCursor({ left, top }, true, true);
    showPoints(view, hits);
    showTip(view, hits, left, top);
    announcer.textContent = spoken(view, hits);
  };

  const leave = (view) => {
    view.stop = null;
    if (view.u.cursor.left >= 0) view.u.setCursor({ left: -10, top: -10 }, true, true);
    showPoints(view, []);
    hideTip(view);
  };

  const key = (view, event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = view.stop ? view.stop.at : -1;
    const moves = { ArrowRight: at + 1, ArrowLeft: at < 0 ? 0 : at - 1, Home: 0, End: Infinity, PageDown: at + PAGE, PageUp: at - PAGE };
    if (event.key in moves) goTo(view, moves[event.key]);
    else if (event.key === "Escape") {
      leave(view);
      if (view.isZoomed) view.zoom(null);
      else view.plot.blur();
    } else return;
    event.preventDefault();
  };

  const attach = (view) => {
    view.points = [];
    view.stop = null;
    view.plot.tabIndex = 0;
    view.plot.setAttribute("role", "application");
    view.plot.setAttribute("aria-roledescription", "chart");
    view.plot.setAttribute("aria-label", `${view.data.title}. Arrow keys read its values, Escape leaves.`);
    view.plot.addEventListener("keydown", (event) => key(view, event));
    view.plot.addEventListener("blur", () => leave(view));
    view.u.over.addEventListener("mousemove", () => (view.stop = null), { capture: true });
  };

  addEventListener("scroll", () => tipOf && !tipOf.stop && hideTip(tipOf), { passive: true });

  return { attach, moved };
})();
