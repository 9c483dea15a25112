"use strict";
// A chart as a file: its title, legend, axes and visible marks are drawn again, on a canvas for PNG, or by a
// pen that writes SVG. Both work without a network, and in the theme of the page.

const Picture = (() => {
  const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif';
  const FONT = `12px ${FAMILY}`;
  const TITLE_FONT = `600 17px ${FAMILY}`;
  const [WIDTH, MARGIN, TITLE, LINE] = [960, 24, 30, 20];
  const HEIGHTS = { low: 200, normal: 340, tall: 420 };
  // Room for a tick and its text, in CSS pixels.
  const [TICK_WIDTH, TICK_HEIGHT] = [80, 38];
  const [ROW, SAMPLE, BETWEEN, NAME_CHARS_MAX] = [22, 26, 16, 48];
  // Names that do not fit side by side are slanted; where they would overlap, only some are drawn.
  const [SLANT, SLANTED_APART] = [(32 * Math.PI) / 180, 18];
  // Pixels of a PNG for each CSS pixel.
  const PNG_SCALE = 2;
  const URL_KEPT_MS = 10_000;

  // XML has no characters below the blank but these three, not even escaped.
  const FORBIDDEN = /[^\t\n\r\u0020-\ufffd]/g;
  const escaped = (text) => text.replace(FORBIDDEN, "\ufffd").replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const rounded = (value) => String(Math.round(value * 10) / 10);

  // The part of a canvas context that is used here and in `Draw`, as SVG. Its only transformations are a factor
  // and, for slanted names, a place and an angle.
  class SvgPen {
    constructor(id) {
      Object.assign(this, { id, parts: [], saved: [], clips: 0, path: [], fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, lineJoin: "round", font: FONT, textAlign: "left", textBaseline: "middle" });
      Object.assign(this, { factor: 1, opened: 0, dashes: [], moved: null, measure: document.createElement("canvas").getContext("2d") });
    }
    save() {
      const { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, factor, opened, dashes, moved } = this;
      this.saved.push({ fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, factor, opened, dashes, moved });
      this.opened = 0;
    }
    restore() {
      this.parts.push("</g>".repeat(this.opened));
      Object.assign(this, this.saved.pop());
    }
    scale(factor) {
      this.factor *= factor;
    }
    translate(x, y) {
      this.moved = { x: this.at(x), y: this.at(y), angle: 0 };
    }
    rotate(angle) {
      this.moved.angle = (angle * 180) / Math.PI;
    }
    at(value) {
      return rounded(value * this.factor);
    }
    beginPath() {
      this.path = [];
    }
    moveTo(x, y) {
      this.path.push(`M${this.at(x)} ${this.at(y)}`);
    }
    lineTo(x, y) {
      this.path.push(`L${this.at(x)} ${this.at(y)}`);
    }
    closePath() {
      this.path.push("Z");
    }
    rect(x, y, width, height) {
      this.path.push(`M${this.at(x)} ${this.at(y)}h${this.at(width)}v${this.at(height)}h${this.at(-width)}Z`);
    }
    // A whole circle.
    arc(x, y, radius) {
      const [r, two] = [this.at(radius), this.at(2 * radius)];
      this.path.push(`M${this.at(x - radius)} ${this.at(y)}a${r} ${r} 0 1 0 ${two} 0a${r} ${r} 0 1 0 -${two} 0Z`);
    }
    setLineDash(dashes) {
      this.dashes = dashes;
    }
    clip() {
      const id = `picture-${this.id}-${(this.clips += 1)}`;
      this.parts.push(`<clipPath id="${id}"><path d="${this.path.join("")}"/></clipPath><g clip-path="url(#${id})">`);
      this.opened += 1;
    }
    opacity() {
      return this.globalAlpha < 1 ? ` opacity="${Math.round(this.globalAlpha * 100) / 100}"` : "";
    }
    fill() {
      this.parts.push(`<path d="${this.path.join("")}" fill="${this.fillStyle}"${this.opacity()}/>`);
    }
    stroke() {
      const dashes = this.dashes.length ? ` stroke-dasharray="${this.dashes.join(" ")}"` : "";
      this.parts.push(`<path d="${this.path.join("")}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.at(this.lineWidth)}" stroke-linejoin="round"${dashes}${this.opacity()}/>`);
    }
    fillRect(x, y, width, height) {
      this.beginPath();
      this.rect(x, y, width, height);
      this.fill();
    }
    measureText(text) {
      this.measure.font = this.font;
      return this.measure.measureText(text);
    }
    fillText(text, x, y) {
      const [, weight, size] = /^(?:(\d+) )?(\d+)px/.exec(this.font);
      const anchor = { left: "", center: ' text-anchor="middle"', right: ' text-anchor="end"' }[this.textAlign];
      const place = this.moved ? ` transform="translate(${this.moved.x} ${this.moved.y}) rotate(${rounded(this.moved.angle)})"` : "";
      this.parts.push(`<text x="${this.at(x)}" y="${this.at(y + 0.35 * size)}" fill="${this.fillStyle}" font-size="${size}"${weight ? ` font-weight="${weight}"` : ""}${anchor}${place}>${escaped(text)}</text>`);
    }
    text(height, { title, description }) {
      const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${rounded(height)}" viewBox="0 0 ${WIDTH} ${rounded(height)}" role="img" font-family="${FAMILY.replaceAll('"', "'")}">`;
      return [head, `<title>${escaped(title)}</title><desc>${escaped(description)}</desc>`, ...this.parts, "</svg>", ""].join("\n");
    }
  }

  const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

  // Entries of the legend with their places; one entry needs none.
  const legendOf = (pen, view) => {
    const shown = view.marks.filter(({ isShown }) => isShown);
    const names = [...new Set(shown.map(({ name }) => name))];
    if (names.length < 2) return { entries: [], height: 0 };
    let [x, y] = [0, 0];
    const entries = names.map((whole) => {
      const of = shown.filter(({ name }) => name === whole);
      const name = shortened(whole, NAME_CHARS_MAX);
      const needed = SAMPLE + 6 + pen.measureText(name).width;
      if (x > 0 && x + needed > WIDTH - 2 * MARGIN) [x, y] = [0, y + ROW];
      const entry = { marks: of.find(({ mark }) => mark !== "band") || of[0], name, x, y };
      x += needed + BETWEEN;
      return entry;
    });
    return { entries, height: y + ROW + 6 };
  };

  const write = (pen, text, x, y, align = "left") => {
    pen.textAlign = align;
    pen.fillText(text, x, y);
  };

  const stroke = (pen, color, points, width = 1) => {
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.beginPath();
    points.forEach(([x, y], at) => (at === 0 ? pen.moveTo(x, y) : pen.lineTo(x, y)));
    pen.stroke();
  };

  const drawSample = (pen, colors, marks, x, y) => {
    const color = colors.series[marks.color % colors.series.length];
    const alpha = marks.is_faint ? 0.55 : 1;
    pen.globalAlpha = alpha;
    pen.fillStyle = color;
    const isBlock = ["bars", "area", "band", "span"].includes(marks.mark);
    if (isBlock) {
      pen.globalAlpha = marks.mark === "bars" ? alpha : 0.3 * alpha;
      pen.fillRect(x + 3, y - 5, SAMPLE - 6, 10);
    } else {
      const middle = x + SAMPLE / 2;
      pen.setLineDash(marks.is_dashed ? Draw.DASHES : []);
      if (marks.mark === "interval") stroke(pen, color, [[middle, y - 7], [middle, y + 7]], 2);
      else if (marks.mark !== "dots") stroke(pen, color, [[x + 1, y], [x + SAMPLE - 1, y]], 2);
      pen.setLineDash([]);
      if (marks.hasCompany || ["dots", "interval", "path"].includes(marks.mark)) {
        pen.beginPath();
        Draw.shape(pen, marks.shape, middle, y, 3.8);
        [pen.strokeStyle, pen.lineWidth] = [color, 1.75];
        if (marks.is_hollow) pen.stroke();
        else pen.fill();
      }
    }
    pen.globalAlpha = 1;
  };

  // Ranges, ticks and places, as uPlot would have them in a window of this size.
  const layout = (pen, view, top) => {
    const sides = view.data.y_right ? ["left", "right"] : ["left"];
    const height = HEIGHTS[view.data.height] || HEIGHTS.normal;
    const ranges = { x: view.view };
    const ticks = {};
    for (const side of sides) {
      ranges[side] = Prepare.rangeY(view, side, view.view);
      ticks[side] = view.scales[side].ticks(...ranges[side], Math.max(2, height / TICK_HEIGHT));
    }
    const widest = (texts) => texts.reduce((most, { text }) => Math.max(most, pen.measureText(text).width), 24) + 12;
    const left = MARGIN + widest(ticks.left);
    const right = WIDTH - MARGIN - (ticks.right ? widest(ticks.right) : 22);
    const box = { left, right, top: top + LINE + 8, bottom: top + LINE + 8 + height };
    ticks.x = view.scales.x.ticks(...ranges.x, Math.max(2, (right - left) / TICK_WIDTH)).map(({ at, text }) => ({ at, text: shortened(text, 24) }));
    const named = Boolean(view.scales.x.names);
    const room = (right - left) / Math.max(1, ranges.x[1] - ranges.x[0]);
    const isSlanted = named && widest(ticks.x) > room;
    const below = isSlanted ? LINE + widest(ticks.x) * Math.sin(SLANT) : LINE + 6;
    const every = isSlanted ? Math.max(1, Math.ceil(SLANTED_APART / room)) : 1;
    const position = (value, scale) => {
      const [min, max] = ranges[scale];
      const share = (value - min) / (max - min);
      return scale === "x" ? box.left + share * (box.right - box.left) : box.bottom - share * (box.bottom - box.top);
    };
    return { box, ranges, ticks, named, isSlanted, every, position, end: box.bottom + below + (view.data.x.label ? LINE : 0) };
  };

  const drawTicksX = (pen, colors, { box, ticks, named, isSlanted, every, position }) => {
    for (const { at, text } of ticks.x.filter((_, at) => at % every === 0)) {
      const x = position(at, "x");
      if (!named) stroke(pen, colors.grid, [[x, box.top], [x, box.bottom]]);
      if (!isSlanted) write(pen, text, x, box.bottom + LINE / 2 + 4, "center");
      else {
        pen.save();
        pen.translate(x + 4, box.bottom + 12);
        pen.rotate(-SLANT);
        write(pen, text, 0, 0, "right");
        pen.restore();
      }
    }
  };

  const drawAxes = (pen, colors, view, plan, top) => {
    const { box, ticks, position } = plan;
    const { x, y, y_right, title } = view.data;
    pen.fillStyle = colors.muted;
    if (y_right || y.label.toLowerCase() !== title.toLowerCase()) write(pen, y.label, MARGIN, top + LINE / 2);
    if (y_right) write(pen, y_right.label, WIDTH - MARGIN, top + LINE / 2, "right");
    for (const { at, text } of ticks.left) {
      const height = position(at, "left");
      stroke(pen, colors.grid, [[box.left, height], [box.right, height]]);
      write(pen, text, box.left - 8, height, "right");
    }
    for (const { at, text } of ticks.right || []) write(pen, text, box.right + 8, position(at, "right"));
    drawTicksX(pen, colors, plan);
    stroke(pen, colors.line, [[box.left, box.bottom], [box.right, box.bottom]]);
    write(pen, x.label, (box.left + box.right) / 2, plan.end - LINE / 2, "center");
  };

  // Draws all of it with a pen that `penOf` makes for the height.
  const draw = (view, penOf) => {
    const colors = Theme.colors();
    const probe = new SvgPen(view.data.id);
    const legend = legendOf(probe, view);
    const top = MARGIN + TITLE + legend.height;
    const plan = layout(probe, view, top);
    const height = plan.end + MARGIN;
    const pen = penOf(height);
    pen.textBaseline = "middle";
    pen.fillStyle = colors.surface;
    pen.fillRect(0, 0, WIDTH, height);
    pen.fillStyle = colors.ink;
    pen.font = TITLE_FONT;
    write(pen, view.data.title, MARGIN, MARGIN + 8);
    pen.font = FONT;
    for (const { marks, name, x, y } of legend.entries) {
      const middle = MARGIN + TITLE + y + ROW / 2;
      drawSample(pen, colors, marks, MARGIN + x, middle);
      pen.fillStyle = colors.ink;
      write(pen, name, MARGIN + x + SAMPLE + 6, middle);
    }
    drawAxes(pen, colors, view, plan, top);
    // `Draw` counts in the pixels of uPlot's canvas.
    const ratio = uPlot.pxRatio;
    const { box, ranges, position } = plan;
    const scales = { left: { min: ranges.left[0], max: ranges.left[1] } };
    const bbox = { left: box.left * ratio, top: box.top * ratio, width: (box.right - box.left) * ratio, height: (box.bottom - box.top) * ratio };
    pen.save();
    pen.scale(1 / ratio, 1 / ratio);
    Draw.all({ data: view.data, marks: view.marks, isZoomed: view.isZoomed, u: { ctx: pen, bbox, scales, valToPos: (value, scale) => position(value, scale) * ratio } });
    pen.restore();
    return { pen, height };
  };

  const svg = (view) => {
    const { pen, height } = draw(view, () => new SvgPen(view.data.id));
    return Promise.resolve(new Blob([pen.text(height, view.data)], { type: "image/svg+xml" }));
  };

  const png = (view) => {
    const canvas = document.createElement("canvas");
    draw(view, (height) => {
      [canvas.width, canvas.height] = [WIDTH * PNG_SCALE, Math.ceil(height * PNG_SCALE)];
      const pen = canvas.getContext("2d");
      pen.scale(PNG_SCALE, PNG_SCALE);
      return pen;
    });
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  };

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), URL_KEPT_MS);
  };

  // The buttons of a chart.
  const add = (view) => {
    const row = document.createElement("p");
    row.className = "save";
    for (const [ending, make] of [["svg", svg], ["png", png]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = ending.toUpperCase();
      button.setAttribute("aria-label", `Save as ${ending.toUpperCase()}: ${view.data.title}`);
      button.addEventListener("click", async () => save(await make(view), `${view.data.id}.${ending}`));
      row.append(button);
    }
    view.figure.append(row);
  };

  return { add };
})();
