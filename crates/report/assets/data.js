"use strict";
// The values of a chart as a table, made when it is opened.

const DataTable = (() => {
  const ROWS_MAX = 5000;

  const known = (value) => value !== null && value !== undefined;

  // A row for each point: the name of its marks, x, value, ends, label.
  const rowsOf = ({ data }) => data.marks.flatMap((marks) => marks.x.map((x, at) => ({
    name: marks.name,
    x,
    y: marks.y[at],
    low: marks.low[at],
    high: marks.high[at],
    until: marks.until && marks.until[at],
    label: marks.labels[at],
    axis: marks.side === "right" && data.y_right ? data.y_right : data.y,
  })));

  const columnsOf = ({ data }, rows) => {
    const some = (field) => rows.some((row) => known(row[field]) && row[field] !== "");
    const number = (name, field, axis) => ({ name, field, axis });
    const columns = [{ name: "Name", field: "name" }, number(data.x.label || "x", "x", () => data.x)];
    if (some("until")) columns.push(number("until", "until", () => data.x));
    if (some("y")) columns.push(number(data.y.label && !data.y_right ? data.y.label : "value", "y", (row) => row.axis));
    if (some("low")) columns.push(number("low", "low", (row) => row.axis));
    if (some("high")) columns.push(number("high", "high", (row) => row.axis));
    if (some("label")) columns.push({ name: "What it is", field: "label" });
    return columns;
  };

  const cell = (row, { field, axis }) => {
    const made = document.createElement("td");
    const value = row[field];
    if (!axis) {
      made.textContent = value ?? "";
      return made;
    }
    made.className = "number";
    if (!known(value)) {
      made.textContent = "\u2013";
      return made;
    }
    made.textContent = Scales.words(axis(row), value);
    made.dataset.value = String(value);
    return made;
  };

  const build = (view) => {
    const rows = rowsOf(view);
    const columns = columnsOf(view, rows);
    const table = document.createElement("table");
    table.createCaption().textContent = rows.length > ROWS_MAX ? `The first ${ROWS_MAX} of ${rows.length} values` : view.data.title;
    const head = table.createTHead().insertRow();
    for (const { name, axis } of columns) {
      const one = document.createElement("th");
      one.scope = "col";
      one.textContent = name;
      if (axis) one.className = "number";
      head.append(one);
    }
    const body = table.createTBody();
    for (const row of rows.slice(0, ROWS_MAX)) body.insertRow().append(...columns.map((column) => cell(row, column)));
    Tables.enhance(table);
    const frame = document.createElement("div");
    frame.className = "scroll values";
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", `Values of: ${view.data.title}`);
    frame.append(table);
    return frame;
  };

  const add = (view) => {
    const details = document.createElement("details");
    details.className = "data";
    const summary = document.createElement("summary");
    summary.textContent = "Data";
    const name = document.createElement("span");
    name.className = "unseen";
    name.textContent = ` of: ${view.data.title}`;
    summary.append(name);
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(build(view));
    });
    view.figure.append(details);
  };

  return { add };
})();
