// Turns the text of a terminal with escape sequences for colours (`tmux capture-pane -e`) into a page
// that looks like it. Prints the width and height of the page in CSS pixels.
//
//     node terminal-to-html.mjs INPUT OUTPUT
import { readFileSync, writeFileSync } from "node:fs";

const [input, output] = process.argv.slice(2);
const lines = readFileSync(input, "utf8").replace(/\s+$/, "").split("\n");

const PALETTE = [
  "#3b4252", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dee9",
  "#6b7280", "#ff7b86", "#b5e08c", "#ffd68a", "#82c4ff", "#dc9bff", "#7fd8e3", "#ffffff",
];
const BACKGROUND = "#1e222a";
const FOREGROUND = "#d8dee9";
const FONT_PX = 14;
// Not more than the height of a block character, so that rows of them join.
const LINE_PX = 16;
// Of the monospaced fonts that Debian has, an advance is 0.602 of the size.
const ADVANCE_PX = FONT_PX * 0.602;
const MARGIN_PX = 18;

/** The colour of a number of the 256-colour palette. */
function colour256(number) {
  if (number < 16) return PALETTE[number];
  if (number >= 232) {
    const level = 8 + 10 * (number - 232);
    return `rgb(${level},${level},${level})`;
  }
  const cube = number - 16;
  const level = (part) => (part === 0 ? 0 : 55 + 40 * part);
  return `rgb(${level(Math.floor(cube / 36))},${level(Math.floor(cube / 6) % 6)},${level(cube % 6)})`;
}

/** Takes the parameters of one SGR sequence into the style. */
function apply(style, parameters) {
  const codes = parameters === "" ? [0] : parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) Object.assign(style, { fg: null, bg: null, bold: false, dim: false, reverse: false, underline: false });
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.reverse = true;
    else if (code === 22) Object.assign(style, { bold: false, dim: false });
    else if (code === 24) style.underline = false;
    else if (code === 27) style.reverse = false;
    else if (code === 39) style.fg = null;
    else if (code === 49) style.bg = null;
    else if (code >= 30 && code <= 37) style.fg = PALETTE[code - 30];
    else if (code >= 40 && code <= 47) style.bg = PALETTE[code - 40];
    else if (code >= 90 && code <= 97) style.fg = PALETTE[code - 82];
    else if (code >= 100 && code <= 107) style.bg = PALETTE[code - 92];
    else if (code === 38 || code === 48) {
      const key = code === 38 ? "fg" : "bg";
      if (codes[at + 1] === 5) {
        style[key] = colour256(codes[at + 2]);
        at += 2;
      } else if (codes[at + 1] === 2) {
        style[key] = `rgb(${codes.slice(at + 2, at + 5).join(",")})`;
        at += 4;
      }
    }
  }
}

const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function span(text, style) {
  if (text === "") return "";
  let fg = style.fg ?? FOREGROUND;
  let bg = style.bg;
  if (style.reverse) [fg, bg] = [bg ?? BACKGROUND, fg];
  const css = [`color:${fg}`];
  if (bg) css.push(`background:${bg}`);
  if (style.bold) css.push("font-weight:bold");
  if (style.dim) css.push("opacity:.6");
  if (style.underline) css.push("text-decoration:underline");
  return `<span style="${css.join(";")}">${escape(text)}</span>`;
}

const style = {};
apply(style, "");
let columns = 0;
const rows = lines.map((line) => {
  let html = "";
  let width = 0;
  let rest = line;
  while (rest !== "") {
    const found = /\x1b\[([0-9;:]*)([A-Za-z])|\x1b\(B|\x0f|\x0e/.exec(rest);
    const text = found ? rest.slice(0, found.index) : rest;
    html += span(text, style);
    width += [...text].length;
    if (!found) break;
    if (found[2] === "m") apply(style, found[1]);
    rest = rest.slice(found.index + found[0].length);
  }
  columns = Math.max(columns, width);
  return html;
});

const width = Math.ceil(columns * ADVANCE_PX) + 2 * MARGIN_PX;
const height = rows.length * LINE_PX + 2 * MARGIN_PX;
writeFileSync(output, `<!doctype html><meta charset="utf-8"><style>
html { background: ${BACKGROUND}; }
body { margin: ${MARGIN_PX}px; }
pre { margin: 0; font: ${FONT_PX}px/${LINE_PX}px "DejaVu Sans Mono", "Liberation Mono", monospace; font-variant-ligatures: none; }
</style><pre>${rows.join("\n")}</pre>\n`);
console.log(`${width} ${height}`);
