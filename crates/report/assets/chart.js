"use strict";
// A chart. uPlot lays out the axes, keeps the zoom and follows the pointer. `Draw` draws the marks, since
// marks of a chart need not share their x values, unlike uPlot's own series.

const Chart = (() => {
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif';
  // Room for a tick and its text, in CSS pixels.
  const TICK_WIDTH = 68;
  const TICK_HEIGHT = 34;
  const NAME_CHARS_MAX = 20;
  // Names that do not fit side by side are slanted, long ones more than short ones.
  const [SLANT_DEG, STEEP_DEG] = [32, 58];
  const SHORT_NAME = 88;
  const SLANTED_APART = 16;
  // Sizes on paper, where two charts are side by side; browsers ask before they lay it out. The heights are
  // those of the style sheet.
  const PRINT_WIDTH = 328;
  const PRINT_HEIGHTS = { low: 96, normal: 165, tall: 175 };
  // Longest time of drawing without a pause, in ms.
  const SLICE_MS = 40;
  // Plots in a column start at the same x if they can.
  const GROUP_AXIS_WIDTH = 58;

  const charts = [];
  let isPrinting = false;

  // Long names are cut in the middle, since they differ at the end as often as at the start.
  const cut = (text) => {
    const half = Math.floor((NAME_CHARS_MAX - 1) / 2);
    return text.length > NAME_CHARS_MAX ? `${text.slice(0, half)}\u2026${text.slice(-half)}` : text;
  };

  const widthOf = (u, axis, texts) => {
    u.ctx.save();
    u.ctx.font = axis.font[0];
    const widest = Math.max(0, ...texts.map((text) => u.ctx.measureText(text).width));
    u.ctx.restore();
    return widest / uPlot.pxRatio;
  };

  // The data of a figure's chart, parsed once.
  const known = new WeakMap();
  const prepared = (figure) => {
    if (!known.has(figure)) known.set(figure, Prepare.chart(JSON.parse(figure.querySelector('script[type="application/json"]').textContent)));
    return known.get(figure);
  };

  // Charts of a group have the same range of x, from the first to the last value of any of them.
  const groupRange = (chart) => {
    const own = Prepare.rangeX(chart);
    if (own === null) return null;
    const figures = [...document.querySelectorAll("figure.chart[data-group]")].filter(({ dataset }) => dataset.group === chart.data.group);
    const ranges = figures.map((figure) => Prepare.rangeX(prepared(figure))).filter(Boolean);
    return [Math.min(...ranges.map(([min]) => min)), Math.max(...ranges.map(([, max]) => max))];
  };

  class View {
    constructor(figure) {
      this.figure = figure;
      this.plot = figure.querySelector(".plot");
      Object.assign(this, prepared(figure));
      this.full = this.data.group ? groupRange(this) : Prepare.rangeX(this);
      this.view = this.full;
      this.u = null;
    }

    get isZoomed() {
      return this.view !== this.full;
    }

    start() {
      this.figure.dataset.drawn = "";
      if (this.full === null) {
        const words = document.createElement("p");
        words.className = "nothing";
        words.textContent = "Nothing was measured that could be drawn here.";
        this.plot.replaceChildren(words);
        this.plot.classList.add("is-empty");
        return;
      }
      this.nameAxes();
      Legend.add(this);
      this.u = new uPlot(this.options(), [this.full, ...this.sides().map(() => [null, null])], this.plot);
      this.u.root.setAttribute("role", "img");
      this.u.root.setAttribute("aria-label", this.data.description || this.data.title);
      Pointer.attach(this);
      DataTable.add(this);
      Picture.add(this);
      new ResizeObserver(() => this.resize()).observe(this.plot);
    }

    sides() {
      return this.data.y_right ? ["left", "right"] : ["left"];
    }

    size() {
      if (isPrinting) return { width: PRINT_WIDTH, height: PRINT_HEIGHTS[this.data.height] };
      return { width: Math.max(120, Math.floor(this.plot.clientWidth)), height: this.plot.clientHeight };
    }

    resize() {
      const { width, height } = this.size();
      if (this.u && this.plot.clientWidth > 0 && (width !== this.u.width || height !== this.u.height)) this.u.setSize({ width, height });
    }

    options() {
      const { group } = this.data;
      const axes = [this.axisX(), ...this.sides().map((side) => this.axisY(side))];
      const scales = { x: { time: false, auto: true, range: () => this.view } };
      for (const side of this.sides()) scales[side] = { auto: true, range: () => Prepare.rangeY(this, side, this.view) };
      return {
        ...this.size(),
        padding: [10, this.data.y_right ? 0 : 22, 0, 0],
        legend: { show: false },
        scales,
        axes,
        series: [{}, ...this.sides().map((side) => ({ scale: side, paths: () => null, points: { show: false } }))],
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false, dist: 5 },
          bind: { dblclick: () => () => this.zoom(null) },
          // `zoom` synchronizes zooming by ranges instead of pixels.
          sync: group ? { key: group, scales: ["x", null], filters: { pub: (type) => type === "mousemove", sub: () => true } } : {},
        },
        hooks: {
          draw: [(u) => Draw.all({ ...this, u, isZoomed: this.isZoomed })],
          setCursor: [() => Pointer.moved(this)],
          setSelect: [(u) => this.selected(u)],
        },
      };
    }

    axis(scale, name, most) {
      const colors = () => Theme.colors();
      let ticks = [];
      const splits = (u, _, min, max) => {
        ticks = this.scales[name].ticks(min, max, most(u));
        return ticks.map(({ at }) => at);
      };
      return {
        scale,
        font: FONT,
        stroke: () => colors().muted,
        grid: { stroke: () => colors().grid, width: 1 },
        ticks: { show: false },
        border: { show: name === "x", stroke: () => colors().line, width: 1 },
        gap: 8,
        // uPlot needs steps to choose from. Ours are not even, so it gets the whole range as one. For steps
        // below 5 it looks up the decimals in its own table.
        incrs: (u, at, min, max) => [Math.max(5, Math.ceil(max - min))],
        space: 1,
        splits,
        values: () => ticks.map(({ text }) => cut(text)),
      };
    }

    axisX() {
      const { names } = this.scales.x;
      const axis = this.axis("x", "x", (u) => Math.max(2, u.bbox.width / uPlot.pxRatio / TICK_WIDTH));
      if (!names) return { ...axis, size: 28 };
      const shown = names.map(cut);
      const room = () => (this.size().width - 90) / Math.max(1, this.view[1] - this.view[0]);
      const slant = (u) => {
        const width = widthOf(u, u.axes[0], shown);
        return width + 12 <= room() ? 0 : width <= SHORT_NAME ? SLANT_DEG : STEEP_DEG;
      };
      return {
        ...axis,
        grid: { show: false },
        rotate: slant,
        // Where even slanted names would overlap, only some are drawn; the pointer shows all.
        values: (u, splits) => {
          const every = slant(u) ? Math.max(1, Math.ceil(SLANTED_APART / room())) : 1;
          return splits.map((at) => (Math.round(at) % every === 0 ? shown[Math.round(at)] : ""));
        },
        size: (u) => 28 + (slant(u) ? Math.ceil(widthOf(u, u.axes[0], shown) * Math.sin((slant(u) * Math.PI) / 180)) - 4 : 0),
      };
    }

    axisY(side) {
      const axis = this.axis(side, side, (u) => Math.max(2, u.bbox.height / uPlot.pxRatio / TICK_HEIGHT));
      return {
        ...axis,
        side: side === "right" ? 1 : 3,
        grid: side === "right" ? { show: false } : axis.grid,
        size: (u, texts, index) => (texts ? Math.max(this.data.group ? GROUP_AXIS_WIDTH : 30, Math.ceil(widthOf(u, u.axes[index], texts)) + 14) : 50),
      };
    }

    // Axis labels are horizontal text above and below the plot.
    nameAxes() {
      const make = (kind, parts) => {
        const row = document.createElement("div");
        row.className = `axis-names ${kind}`;
        row.setAttribute("aria-hidden", "true");
        for (const part of parts) {
          const word = document.createElement("span");
          word.textContent = part;
          row.append(word);
        }
        return row;
      };
      const { x, y, y_right, title } = this.data;
      // A label that repeats the title is left out.
      const left = y.label.toLowerCase() === title.toLowerCase() && !y_right ? "" : y.label;
      this.plot.before(make("above", [left, y_right ? y_right.label : ""]));
      if (x.label) this.plot.after(make("below", [x.label]));
    }

    selected(u) {
      const { left, width } = u.select;
      if (width <= 0) return;
      this.zoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    }

    // Zooms to a range of coordinates, or out; charts of a group zoom together.
    zoom(range, isFollowing = false) {
      if (range && !(range[1] - range[0] > (this.full[1] - this.full[0]) * 1e-6)) return;
      this.view = range || this.full;
      this.refresh();
      Legend.update(this);
      if (isFollowing || !this.data.group) return;
      for (const other of charts) {
        if (other !== this && other.u && other.data.group === this.data.group) other.zoom(range, true);
      }
    }

    refresh() {
      if (this.u) this.u.setScale("x", { min: this.view[0], max: this.view[1] });
    }

    // Hides or shows marks and adapts the axes.
    show(isShown) {
      for (const marks of this.marks) marks.isShown = isShown(marks);
      this.refresh();
      Legend.update(this);
    }

    redraw() {
      if (this.u) this.u.redraw(false, true);
    }
  }

  const drawn = new WeakMap();
  const draw = (figure) => {
    if (drawn.has(figure)) return;
    const view = new View(figure);
    drawn.set(figure, view);
    charts.push(view);
    view.start();
  };

  const isOpen = (figure) => figure.closest("details.fold:not([open])") === null;

  // Draws all charts when the page opens, the first ones immediately. A page may have a hundred, so that the
  // others are drawn in slices between which the page responds. Charts of a closed section are drawn when it
  // opens.
  const start = () => {
    const waiting = [...document.querySelectorAll("figure.chart")].filter(isOpen);
    const slice = () => {
      const end = performance.now() + SLICE_MS;
      while (waiting.length && performance.now() < end) draw(waiting.shift());
      if (waiting.length) setTimeout(slice);
    };
    slice();
    for (const fold of document.querySelectorAll("details.fold")) {
      fold.addEventListener("toggle", () => fold.open && fold.querySelectorAll("figure.chart").forEach(draw));
    }
    Theme.onChange(() => charts.forEach((view) => view.redraw()));
  };

  const drawAll = () => document.querySelectorAll("figure.chart").forEach(draw);

  // Paper has the same width whatever the window's width.
  const print = (isOn) => {
    isPrinting = isOn;
    charts.forEach((view) => view.resize());
  };

  return { start, drawAll, print };
})();
