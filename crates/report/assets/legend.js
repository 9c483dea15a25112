"use strict";
// The legend of a chart as buttons: a click hides or shows marks, a double click or a click with a modifier
// key shows only one.

const Legend = (() => {
  const ALL_AND_NONE_FROM = 7;
  const SVG = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT] = [26, 14];

  const svg = (name, attributes) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  // Collects the outline of a shape as an SVG path; a circle is two arcs.
  const outline = (index, x, y, radius) => {
    const parts = [];
    const path = {
      moveTo: (a, b) => parts.push(`M${a} ${b}`),
      lineTo: (a, b) => parts.push(`L${a} ${b}`),
      closePath: () => parts.push("Z"),
      rect: (a, b, w, h) => parts.push(`M${a} ${b}h${w}v${h}h${-w}Z`),
      arc: (a, b, r) => parts.push(`M${a - r} ${b}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`),
    };
    Draw.shape(path, index, x, y, radius);
    return parts.join("");
  };

  // A sample of the marks.
  const swatch = (marks) => {
    const picture = svg("svg", { width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true", class: "swatch" });
    picture.style.color = Theme.css(marks.color);
    const [x, y] = [WIDTH / 2, HEIGHT / 2];
    const dash = marks.is_dashed ? { "stroke-dasharray": "6 4" } : {};
    const line = (more) => picture.append(svg("line", { x1: 1, x2: WIDTH - 1, y1: y, y2: y, stroke: "currentColor", "stroke-width": 2, ...dash, ...more }));
    const filled = marks.is_hollow ? { fill: "none", stroke: "currentColor", "stroke-width": 1.75 } : { fill: "currentColor" };
    const point = (radius) => picture.append(svg("path", { d: outline(marks.shape, x, y, radius), ...filled }));
    const block = (opacity) => picture.append(svg("rect", { x: 3, y: 2, width: WIDTH - 6, height: HEIGHT - 4, rx: 2, fill: "currentColor", opacity }));
    if (marks.is_faint) picture.setAttribute("opacity", "0.55");
    switch (marks.mark) {
      case "dots":
        point(4);
        break;
      case "bars":
        block(1);
        break;
      case "span":
        block(0.25);
        picture.append(svg("rect", { x: 3, y: HEIGHT - 5, width: WIDTH - 6, height: 3, fill: "currentColor" }));
        break;
      case "area":
      case "band":
        block(0.3);
        break;
      case "interval":
        picture.append(svg("path", { d: `M${x} 1V${HEIGHT - 1}M${x - 4} 1H${x + 4}M${x - 4} ${HEIGHT - 1}H${x + 4}`, stroke: "currentColor", "stroke-width": 1.5, fill: "none" }));
        point(3.2);
        break;
      default:
        line({});
        if (marks.hasCompany || marks.mark === "path") point(3.6);
    }
    return picture;
  };

  const button = (text, action) => {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = text;
    element.addEventListener("click", action);
    return element;
  };

  // Marks with the same name are one entry: a line and its band.
  const entriesOf = (view) => {
    const entries = new Map();
    for (const marks of view.marks) {
      if (!entries.has(marks.name)) entries.set(marks.name, []);
      entries.get(marks.name).push(marks);
    }
    return [...entries.values()];
  };

  const add = (view) => {
    const entries = entriesOf(view);
    const row = document.createElement("div");
    row.className = "legend";
    view.legend = { row, entries: [] };
    view.plot.closest("figure").querySelector("figcaption").after(row);
    if (entries.length > 1) {
      row.setAttribute("role", "group");
      row.setAttribute("aria-label", `What is shown of: ${view.data.title}`);
      for (const entry of entries) {
        const element = button("", (event) => {
          const isAlone = event.shiftKey || event.ctrlKey || event.metaKey || event.altKey;
          if (isAlone) isolate(view, entry);
          else view.show((marks) => (entry.includes(marks) ? !marks.isShown : marks.isShown));
        });
        element.addEventListener("dblclick", () => isolate(view, entry));
        element.className = "entry";
        element.title = "Click to hide or show; double-click to show it alone";
        const name = document.createElement("span");
        name.textContent = entry[0].name;
        // For a line with a band, the sample is the line.
        const main = entry.find(({ mark }) => mark !== "band") || entry[0];
        element.append(swatch(main), name);
        row.append(element);
        view.legend.entries.push({ element, entry });
      }
      if (entries.length >= ALL_AND_NONE_FROM) {
        const all = button("All", () => view.show(() => true));
        const none = button("None", () => view.show(() => false));
        for (const element of [all, none]) element.className = "choice";
        row.append(all, none);
      }
    }
    view.legend.reset = button("Reset zoom", () => view.zoom(null));
    view.legend.reset.className = "choice reset";
    row.append(view.legend.reset);
    update(view);
  };

  // Shows only these marks, or all if they already are the only ones.
  const isolate = (view, entry) => {
    const isAlone = view.marks.every((marks) => marks.isShown === entry.includes(marks));
    view.show((marks) => isAlone || entry.includes(marks));
  };

  const update = (view) => {
    if (!view.legend) return;
    for (const { element, entry } of view.legend.entries) element.setAttribute("aria-pressed", String(entry[0].isShown));
    view.legend.reset.hidden = !view.isZoomed;
    view.legend.row.hidden = view.legend.entries.length === 0 && !view.isZoomed;
  };

  return { add, update };
})();
