"use strict";
// Colours for the canvas, read from the style sheet, and the switch between light and dark.

const Theme = (() => {
  const SERIES = 8;
  const MODES = ["auto", "light", "dark"];
  const root = document.documentElement;
  const listeners = [];
  let known = null;

  // A custom property is text until it is used: only then `light-dark()` resolves to a colour.
  const read = () => {
    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    const resolved = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const colors = {
      ink: resolved("--ink"),
      muted: resolved("--muted"),
      grid: resolved("--grid"),
      line: resolved("--line"),
      surface: resolved("--surface"),
      series: Array.from({ length: SERIES }, (_, at) => resolved(`--series-${at}`)),
    };
    probe.remove();
    return colors;
  };

  const colors = () => {
    known ??= read();
    return known;
  };

  const changed = () => {
    known = null;
    for (const listener of listeners) listener();
  };

  // Adds the button for the system's theme, light and dark.
  const start = () => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "theme";
    let mode = 0;
    const show = () => {
      button.textContent = `Theme: ${MODES[mode]}`;
      if (mode === 0) delete root.dataset.theme;
      else root.dataset.theme = MODES[mode];
    };
    button.addEventListener("click", () => {
      mode = (mode + 1) % MODES.length;
      show();
      changed();
    });
    show();
    document.querySelector(".top-inner").append(button);
    for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", changed);
  };

  return { colors, start, changed, onChange: (listener) => listeners.push(listener), css: (index) => `var(--series-${index % SERIES})`, SERIES };
})();
