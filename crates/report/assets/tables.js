"use strict";
// Tables with a button for all columns, sorted by a click on a heading: ascending, descending, original
// order.

const Tables = (() => {
  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
  const collator = new Intl.Collator("en", { numeric: true });

  const numberIn = (cell) => {
    const value = Number(cell?.dataset.value ?? NaN);
    return Number.isFinite(value) ? value : null;
  };

  // Numbers by value; cells without a value are last in both orders.
  const byNumber = (column, sign) => (a, b) => {
    const [left, right] = [numberIn(a.cells[column]), numberIn(b.cells[column])];
    if (left === null || right === null) return (left === null) - (right === null);
    return sign * (left - right);
  };

  const byText = (column, sign) => (a, b) => sign * collator.compare(a.cells[column]?.textContent ?? "", b.cells[column]?.textContent ?? "");

  const sort = (table, heads, column) => {
    const direction = NEXT[heads[column].getAttribute("aria-sort") || "none"];
    heads.forEach((head, at) => head.hasAttribute("aria-sort") && head.setAttribute("aria-sort", at === column ? direction : "none"));
    const sign = direction === "descending" ? -1 : 1;
    const order = heads[column].classList.contains("number") ? byNumber(column, sign) : byText(column, sign);
    const rows = table.sortable.slice();
    if (direction !== "none") rows.sort(order);
    table.tBodies[0].append(...rows);
  };

  const enhance = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    table.sortable = [...table.tBodies[0].rows];
    // The exact value, where the text has fewer digits.
    for (const cell of table.querySelectorAll("td[data-value]")) cell.title = cell.dataset.value;
    if (table.sortable.length < 2) return;
    heads.forEach((head, column) => {
      if (head.textContent.trim() === "") return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, heads, column));
      head.append(button);
      head.setAttribute("aria-sort", "none");
    });
  };

  // A button shows all columns; without scripts all are visible.
  const addChoice = (table) => {
    const button = document.createElement("button");
    button.type = "button";
    const show = (isAll) => {
      table.classList.toggle("all", isAll);
      button.setAttribute("aria-expanded", String(isAll));
      button.textContent = isAll ? "Fewer columns" : "All columns";
      const name = document.createElement("span");
      name.className = "unseen";
      name.textContent = ` of: ${table.dataset.name}`;
      button.append(name);
    };
    table.dataset.name = table.caption.textContent;
    button.className = "columns";
    button.addEventListener("click", () => show(!table.classList.contains("all")));
    show(false);
    table.caption.append(" ", button);
  };

  const start = () => {
    document.querySelectorAll("main table").forEach(enhance);
    document.querySelectorAll("main table.brief").forEach(addChoice);
  };

  return { start, enhance };
})();
