"use strict";
// Draws marks on a canvas. Points are coordinates of uPlot's scales; all lengths are CSS pixels.

const Draw = (() => {
  const FAINT = 0.45;
  const FAINT_POINT = 0.55;
  const FILL = 0.22;
  const DASHES = [6, 4];
  // Least distance of the shapes on a line.
  const SHAPES_APART = 96;
  const POINTS_APART = 26;
  const BAR_WIDTH_MAX = 48;
  const [NAME_FONT, NAME_HEIGHT] = ['600 11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif', 13];
  const SAME_NAME = 40;
  const [SPAN_FILL, SPAN_FOOT, SPAN_WIDTH_MIN] = [0.16, 4, 2];

  // Outlines of shapes with the given radius around a point, in the order of the colours.
  const SHAPES = [
    (path, x, y, r) => path.arc(x, y, r, 0, 2 * Math.PI),
    (path, x, y, r) => path.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r),
    (path, x, y, r) => polygon(path, x, y, [[0, -1.2 * r], [1.1 * r, 0.8 * r], [-1.1 * r, 0.8 * r]]),
    (path, x, y, r) => polygon(path, x, y, [[0, -1.3 * r], [1.3 * r, 0], [0, 1.3 * r], [-1.3 * r, 0]]),
    (path, x, y, r) => polygon(path, x, y, [[0, 1.2 * r], [1.1 * r, -0.8 * r], [-1.1 * r, -0.8 * r]]),
    (path, x, y, r) => {
      const [a, b] = [0.42 * r, 1.25 * r];
      polygon(path, x, y, [[-a, -b], [a, -b], [a, -a], [b, -a], [b, a], [a, a], [a, b], [-a, b], [-a, a], [-b, a], [-b, -a], [-a, -a]]);
    },
    (path, x, y, r) => polygon(path, x, y, [0, 1, 2, 3, 4, 5].map((at) => [1.15 * r * Math.cos((at * Math.PI) / 3), 1.15 * r * Math.sin((at * Math.PI) / 3)])),
    (path, x, y, r) => {
      const [a, b] = [0.5 * r, 1.2 * r];
      polygon(path, x, y, [[-b, -b + a], [-b + a, -b], [0, -a], [b - a, -b], [b, -b + a], [a, 0], [b, b - a], [b - a, b], [0, a], [-b + a, b], [-b, b - a], [-a, 0]]);
    },
  ];

  function polygon(path, x, y, corners) {
    corners.forEach(([dx, dy], at) => (at === 0 ? path.moveTo(x + dx, y + dy) : path.lineTo(x + dx, y + dy)));
    path.closePath();
  }

  const shape = (path, index, x, y, radius) => SHAPES[index % SHAPES.length](path, x, y, radius);

  // The canvas context in CSS pixels, with the positions of coordinates.
  const pen = (u) => {
    const ratio = uPlot.pxRatio;
    return {
      ctx: u.ctx,
      x: (value) => u.valToPos(value, "x", true) / ratio,
      y: (value, side) => u.valToPos(value, side, true) / ratio,
      left: u.bbox.left / ratio,
      top: u.bbox.top / ratio,
      width: u.bbox.width / ratio,
      bottom: (u.bbox.top + u.bbox.height) / ratio,
      ratio,
    };
  };

  // Sequences of adjacent known points, as positions.
  const stretches = (to, marks, values) => {
    const found = [];
    let open = null;
    values.forEach((value, at) => {
      if (value === null || marks.xs[at] === null) {
        open = null;
        return;
      }
      if (open === null) found.push((open = []));
      open.push([to.x(marks.xs[at]), to.y(value, marks.side)]);
    });
    return found;
  };

  const strokeLine = (to, points, isStep) => {
    const { ctx } = to;
    ctx.beginPath();
    points.forEach(([x, y], at) => {
      if (at === 0) ctx.moveTo(x, y);
      else {
        if (isStep) ctx.lineTo(x, points[at - 1][1]);
        ctx.lineTo(x, y);
      }
    });
    ctx.stroke();
  };

  const point = (to, marks, x, y, radius, isHollow) => {
    const { ctx } = to;
    ctx.beginPath();
    shape(ctx, marks.shape, x, y, radius);
    ctx.fillStyle = isHollow ? to.surface : marks.stroke;
    ctx.fill();
    if (!isHollow) return;
    ctx.lineWidth = 1.75;
    ctx.stroke();
  };

  const line = (to, marks, isStep) => {
    const found = stretches(to, marks, marks.ys);
    to.ctx.lineWidth = marks.is_faint ? 1.25 : 2;
    to.ctx.setLineDash(marks.is_dashed ? DASHES : []);
    for (const points of found) strokeLine(to, points, isStep);
    to.ctx.setLineDash([]);
    const count = found.reduce((sum, points) => sum + points.length, 0);
    const hasAll = count > 0 && to.width / count >= POINTS_APART;
    let next = to.left + (marks.hasCompany ? ((marks.order * 29) % SHAPES_APART) : Infinity);
    for (const points of found) {
      for (const [x, y] of points) {
        // A point without neighbours has no line: it is drawn as a dot.
        const isAlone = points.length === 1;
        if (isAlone || (hasAll && !isStep) || x >= next) {
          point(to, marks, x, y, isAlone || !marks.is_faint ? 3 : 2, false);
          if (x >= next) next = x + SHAPES_APART;
        }
      }
    }
  };

  const area = (to, marks) => {
    const { ctx } = to;
    for (const points of stretches(to, marks, marks.ys)) {
      ctx.beginPath();
      ctx.moveTo(points[0][0], to.bottom);
      points.forEach(([x, y], at) => {
        if (at > 0) ctx.lineTo(x, points[at - 1][1]);
        ctx.lineTo(x, y);
      });
      ctx.lineTo(points.at(-1)[0], to.bottom);
      ctx.closePath();
      ctx.fillStyle = marks.stroke;
      const alpha = ctx.globalAlpha;
      ctx.globalAlpha = alpha * FILL;
      ctx.fill();
      ctx.globalAlpha = alpha;
      ctx.lineWidth = 1.5;
      if (points.length === 1) point(to, marks, points[0][0], points[0][1], 3, false);
      else strokeLine(to, points, true);
    }
  };

  const dots = (to, marks) => {
    const radius = marks.xs.length > 300 ? 2.5 : 3.75;
    to.ctx.lineWidth = 1.25;
    marks.ys.forEach((value, at) => {
      if (value === null || marks.xs[at] === null) return;
      point(to, marks, to.x(marks.xs[at]), to.y(value, marks.side), radius, marks.is_hollow);
    });
  };

  // Width and shift of bars, so that bars at the same x are side by side.
  const barPlace = (to, marks) => {
    const slot = Math.min(BAR_WIDTH_MAX * marks.bars, Math.abs(to.x(marks.barStep) - to.x(0)) * 0.8);
    const width = Math.max(1, slot / marks.bars);
    return { width, shift: (marks.barOrder - (marks.bars - 1) / 2) * width };
  };

  const bars = (to, marks) => {
    const { ctx } = to;
    const { width, shift } = barPlace(to, marks);
    const zero = marks.baseline === null ? to.bottom : Math.min(to.bottom, to.y(marks.baseline, marks.side));
    ctx.fillStyle = marks.stroke;
    marks.ys.forEach((value, at) => {
      if (value === null || marks.xs[at] === null) return;
      const y = to.y(value, marks.side);
      const gap = width > 6 ? 1 : 0;
      // Zero is drawn as a line; an unknown value is not drawn.
      const height = Math.max(Math.abs(zero - y), 1.5);
      ctx.fillRect(to.x(marks.xs[at]) + shift - width / 2 + gap / 2, y < zero ? zero - height : zero - (y === zero ? height : 0), width - gap, height);
    });
  };

  const interval = (to, marks) => {
    const { ctx } = to;
    ctx.lineWidth = 2;
    marks.xs.forEach((at, index) => {
      if (at === null) return;
      const x = to.x(at);
      const [low, high] = [marks.lows[index], marks.highs[index]];
      if (low !== null && high !== null) {
        const [bottom, top] = [to.y(low, marks.side), to.y(high, marks.side)];
        ctx.setLineDash(marks.is_dashed ? DASHES : []);
        ctx.beginPath();
        ctx.moveTo(x, bottom);
        ctx.lineTo(x, top);
        ctx.stroke();
        ctx.setLineDash([]);
        ctx.beginPath();
        for (const end of [bottom, top]) {
          ctx.moveTo(x - 6, end);
          ctx.lineTo(x + 6, end);
        }
        ctx.stroke();
      }
      if (marks.ys[index] !== null) point(to, marks, x, to.y(marks.ys[index], marks.side), 4.5, false);
    });
  };

  // Its points have bars like those of intervals.
  const path = (to, marks) => {
    to.ctx.lineWidth = marks.is_faint ? 1.25 : 2;
    to.ctx.setLineDash(marks.is_dashed ? DASHES : []);
    for (const points of stretches(to, marks, marks.ys)) strokeLine(to, points, false);
    to.ctx.setLineDash([]);
    interval(to, { ...marks, is_dashed: false });
  };

  // The short names of points: below to the right, or where else there is room, or nowhere.
  const names = (to, shown) => {
    const { ctx } = to;
    const spots = shown.flatMap((marks) => marks.ys.map((value, at) => (value === null || marks.xs[at] === null ? null : [to.x(marks.xs[at]), to.y(value, marks.side), marks, at])).filter(Boolean));
    const taken = spots.map(([x, y]) => [x - 5, y - 5, 10, 10]);
    const isFree = ([x, y, w, h]) => x >= to.left && x + w <= to.left + to.width && y >= to.top && y + h <= to.bottom && taken.every(([a, b, c, d]) => x >= a + c || a >= x + w || y >= b + d || b >= y + h);
    const named = [];
    ctx.font = NAME_FONT;
    [ctx.textAlign, ctx.textBaseline] = ["left", "middle"];
    ctx.fillStyle = to.ink;
    for (const [x, y, marks, at] of spots) {
      const text = (marks.texts || [])[at];
      if (!text) continue;
      const [w, h] = [ctx.measureText(text).width, NAME_HEIGHT];
      // Once for two percentiles that are close.
      if (named.some((other) => other.text === text && Math.hypot(other.x - x, other.y - y) < SAME_NAME)) continue;
      const [right, left, above, below] = [x + 8, x - 8 - w, y - 4 - h, y + 4];
      const places = [[right, below], [left, above], [right, above], [left, below], [x - w / 2, above - 4], [x - w / 2, below + 4]];
      const place = places.map(([at, top]) => [at, top, w, h]).find(isFree);
      if (!place) continue;
      taken.push(place);
      named.push({ text, x, y });
      ctx.fillText(text, place[0], place[1] + h / 2);
    }
  };

  const band = (to, marks) => {
    const { ctx } = to;
    const both = marks.lows.map((low, at) => (low === null || marks.highs[at] === null ? null : low));
    const lows = stretches(to, marks, both);
    const highs = stretches(to, marks, marks.highs.map((high, at) => (both[at] === null ? null : high)));
    lows.forEach((points, at) => {
      ctx.beginPath();
      points.forEach(([x, y], index) => (index === 0 ? ctx.moveTo(x, y) : ctx.lineTo(x, y)));
      for (const [x, y] of highs[at].slice().reverse()) ctx.lineTo(x, y);
      ctx.closePath();
      ctx.fillStyle = marks.stroke;
      const alpha = ctx.globalAlpha;
      ctx.globalAlpha = alpha * FILL;
      ctx.fill();
      ctx.globalAlpha = alpha;
    });
  };

  // Pale over its height, with a foot that is visible even if the span is narrow or low.
  const span = (to, marks) => {
    const { ctx } = to;
    ctx.fillStyle = marks.stroke;
    marks.xs.forEach((from, at) => {
      if (from === null || marks.untils[at] === null) return;
      const left = to.x(from);
      const width = Math.max(to.x(marks.untils[at]) - left, SPAN_WIDTH_MIN);
      const alpha = ctx.globalAlpha;
      ctx.globalAlpha = alpha * SPAN_FILL;
      const height = (to.bottom - to.top) * (marks.heights ? marks.heights[at] : 1);
      ctx.fillRect(left, to.bottom - height, width, height);
      ctx.globalAlpha = alpha;
      ctx.fillRect(left, to.bottom - SPAN_FOOT, width, SPAN_FOOT);
    });
  };

  const KINDS = {
    line: (to, marks) => line(to, marks, false),
    step: (to, marks) => line(to, marks, true),
    area,
    dots,
    bars,
    interval,
    band,
    path,
    span,
  };

  // The zero line of changes.
  const zeroLine = (to, view) => {
    const { unit, scale } = view.data.y;
    const { min, max } = view.u.scales.left;
    if (unit !== "change_percent" || scale !== "linear" || min > 0 || max < 0) return;
    const { ctx } = to;
    const y = Math.round(to.y(0, "left"));
    ctx.strokeStyle = to.zero;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(to.left, y);
    ctx.lineTo(to.left + to.width, y);
    ctx.stroke();
  };

  // Draws the visible marks, the first at the bottom.
  const all = (view) => {
    const { u, isZoomed } = view;
    const colors = Theme.colors();
    const to = { ...pen(u), surface: colors.surface, zero: colors.muted, ink: colors.ink };
    const { ctx } = to;
    ctx.save();
    ctx.beginPath();
    // Slightly larger than the plot, so that points on its edge are whole; points outside the zoom are cut.
    const [side, above] = [(isZoomed ? 0 : 6) * to.ratio, 6 * to.ratio];
    ctx.rect(u.bbox.left - side, u.bbox.top - above, u.bbox.width + 2 * side, u.bbox.height + 2 * above);
    ctx.clip();
    ctx.scale(to.ratio, to.ratio);
    ctx.lineJoin = "round";
    ctx.lineCap = "butt";
    zeroLine(to, view);
    for (const marks of view.marks) {
      if (!marks.isShown) continue;
      marks.stroke = colors.series[marks.color % colors.series.length];
      ctx.strokeStyle = marks.stroke;
      ctx.globalAlpha = marks.is_faint ? (marks.mark === "dots" ? FAINT_POINT : FAINT) : 1;
      KINDS[marks.mark](to, marks);
    }
    ctx.globalAlpha = 1;
    names(to, view.marks.filter(({ isShown, texts }) => isShown && texts));
    ctx.restore();
  };

  return { all, shape, pen, barPlace, DASHES };
})();
