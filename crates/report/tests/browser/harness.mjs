// Opens pages in a headless Chromium and keeps a list of everything that a report page must never do.

import { mkdirSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const { WRKBENCH_CHROMIUM, WRKBENCH_SCREENSHOTS } = process.env;
if (!WRKBENCH_CHROMIUM) throw new Error("WRKBENCH_CHROMIUM names no browser; start these tests with `make test-browser`");

export const launch = () =>
  chromium.launch({
    executablePath: WRKBENCH_CHROMIUM,
    // Root, as in containers, has no sandbox there.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });

// A page with what went wrong on it: errors, violations of its policy, requests, dialogs.
export const open = async (browser, file, options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const wrongs = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrongs.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => wrongs.push(`error: ${error.stack}`));
  page.on("dialog", (dialog) => {
    wrongs.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  const url = pathToFileURL(file).href;
  page.on("request", (request) => {
    if (request.url().split("#")[0] !== url) wrongs.push(`request: ${request.url()}`);
  });
  page.on("popup", () => wrongs.push("popup"));
  await page.goto(url);
  return { page, wrongs, close: () => context.close() };
};

// Scrolls to a chart until it is drawn.
export const show = async (page, id) => {
  await page.locator(`#${id}`).scrollIntoViewIfNeeded();
  await page.locator(`#${id}[data-drawn]`).waitFor();
  await frames(page);
};

// Scrolls to each chart, as a reader would, until it is drawn.
export const drawAll = async (page) => {
  await page.evaluate(async () => {
    for (const fold of document.querySelectorAll("details.fold")) fold.open = true;
    for (const figure of document.querySelectorAll("figure.chart")) {
      figure.scrollIntoView({ behavior: "instant" });
      while (!("drawn" in figure.dataset)) await new Promise(requestAnimationFrame);
    }
  });
  await frames(page);
};

// Opens the table of values of each chart.
export const openData = async (page, within = "main") => {
  await page.evaluate((selector) => document.querySelectorAll(`${selector} details.data`).forEach((details) => (details.open = true)), within);
  await page.waitForFunction((selector) => [...document.querySelectorAll(`${selector} details.data`)].every((details) => details.querySelector("table")), within);
};

// Until what was asked for is painted.
export const frames = (page) =>
  page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

// For each chart that draws: its marks with the number of pixels on its canvas that have their colour. A pixel may be
// translucent: then its colour is that of the mark all the same.
export const drawnMarks = (page) =>
  page.evaluate(() => {
    const TOLERANCE = 20;
    const found = [];
    const { series } = Theme.colors();
    for (const figure of document.querySelectorAll("figure.chart")) {
      const { title, marks } = JSON.parse(figure.querySelector("script").textContent);
      const canvas = figure.querySelector("canvas");
      if (!canvas) {
        found.push({ title, words: figure.querySelector(".plot").textContent, marks: [] });
        continue;
      }
      // A copy, since reading a canvas changes how the browser keeps it.
      const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, 0, 0);
      const { data } = context.getImageData(0, 0, copy.width, copy.height);
      const pixels = (color) => {
        const wanted = color.match(/\d+/g).map(Number);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) {
          if (data[at + 3] < 40) continue;
          if (wanted.every((value, channel) => Math.abs(data[at + channel] - value) <= TOLERANCE)) count += 1;
        }
        return count;
      };
      found.push({ title, words: "", marks: marks.map(({ name, color }) => ({ name, pixels: pixels(series[color % series.length]) })) });
    }
    return found;
  });

export const tip = (page) => page.locator(".tip");

// Moves the pointer to a share of a chart's plot.
export const hover = async (page, id, across, down) => {
  await show(page, id);
  const over = page.locator(`#${id} .u-over`);
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * across, box.y + box.height * down);
  await frames(page);
};

// How much wider the page is than its window.
export const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

// What everybody needs who does not see the page or has no mouse.
export const accessibility = (page) =>
  page.evaluate(() => {
    const findings = [];
    const named = (element) => (element.getAttribute("aria-label") || element.textContent).trim() !== "";
    for (const element of document.querySelectorAll("button, a, summary")) if (!named(element)) findings.push(`no name: ${element.outerHTML.slice(0, 80)}`);
    for (const element of document.querySelectorAll("[role=img], [role=application], [role=region], [role=group]")) {
      if (!element.getAttribute("aria-label")?.trim()) findings.push(`no label: ${element.outerHTML.slice(0, 80)}`);
    }
    for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
      for (const id of (element.getAttribute("aria-labelledby") || element.getAttribute("aria-describedby")).split(" ")) {
        if (!document.getElementById(id)) findings.push(`no element ${id}`);
      }
    }
    for (const figure of document.querySelectorAll("figure.chart")) if (!figure.querySelector("figcaption")?.textContent.trim()) findings.push(`no caption: ${figure.id}`);
    for (const table of document.querySelectorAll("table")) if (!table.caption?.textContent.trim()) findings.push("a table without caption");
    for (const head of document.querySelectorAll("th")) if (!head.scope) findings.push("a head without scope");
    const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
    for (const id of ids.filter((id, at) => ids.indexOf(id) !== at)) findings.push(`id twice: ${id}`);
    let level = 0;
    for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
      const next = Number(heading.tagName[1]);
      if (next > level + 1) findings.push(`${heading.tagName} after H${level}: ${heading.textContent.slice(0, 40)}`);
      level = next;
    }
    if (document.querySelectorAll("h1").length !== 1) findings.push("not one h1");
    if (document.querySelectorAll("main").length !== 1) findings.push("not one main");
    if (!document.documentElement.lang) findings.push("no language");
    if (!document.title.trim()) findings.push("no title");
    return findings;
  });

// Pictures of the whole page, or of its first part where it is very long: light and dark, wide and narrow.
export const screenshots = async (page, name) => {
  const LENGTH_MAX = 4000;
  mkdirSync(WRKBENCH_SCREENSHOTS, { recursive: true });
  for (const width of [1280, 420]) {
    await page.setViewportSize({ width, height: 900 });
    await drawAll(page);
    await page.evaluate(() => scrollTo(0, 0));
    const length = await page.evaluate(() => document.documentElement.scrollHeight);
    await page.setViewportSize({ width, height: Math.min(length, LENGTH_MAX) });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await frames(page);
      await page.screenshot({ path: `${WRKBENCH_SCREENSHOTS}/${name}-${colorScheme}-${width}.png` });
    }
  }
};
