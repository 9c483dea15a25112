// Opens pages in headless Chromium and lists everything that a report page must never do.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const { WRKBENCH_CHROMIUM, WRKBENCH_SCREENSHOTS } = process.env;
if (!WRKBENCH_CHROMIUM) throw new Error("WRKBENCH_CHROMIUM names no browser; start these tests with `make test-browser`");

export const launch = () =>
  chromium.launch({
    executablePath: WRKBENCH_CHROMIUM,
    // As root, which is usual in containers, Chromium has no sandbox.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });

// A page with its errors, policy violations, requests and dialogs.
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

// Opens every section and waits until all charts are drawn.
export const drawAll = async (page) => {
  await page.evaluate(() => document.querySelectorAll("details.fold").forEach((fold) => (fold.open = true)));
  await page.waitForFunction(() => document.querySelectorAll("figure.chart:not([data-drawn])").length === 0);
  await frames(page);
};

// Opens the table of values of each chart.
export const openData = async (page, within = "main") => {
  await page.evaluate((selector) => document.querySelectorAll(`${selector} details.data`).forEach((details) => (details.open = true)), within);
  await page.waitForFunction((selector) => [...document.querySelectorAll(`${selector} details.data`)].every((details) => details.querySelector("table")), within);
};

// Waits for the next frames.
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

// What keeps people who cannot see, or use no mouse, from using the page: by the rules of axe-core (WCAG 2.2 A and AA, and
// what is good practice beyond), and what these do not ask for.
const accessibility = async (page) => {
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  return page.evaluate(async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    const findings = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0].html.slice(0, 120)} and ${nodes.length - 1} more`);
    for (const figure of document.querySelectorAll("figure.chart")) if (!figure.querySelector("figcaption")?.textContent.trim()) findings.push(`no caption: ${figure.id}`);
    for (const table of document.querySelectorAll("table")) if (!table.caption?.textContent.trim()) findings.push("a table without caption");
    for (const head of document.querySelectorAll("th")) if (!head.scope) findings.push("a head without scope");
    return findings;
  });
};

// Expects a page that everybody can use, light and dark, with its folded parts open.
export const expectAccessible = async (page) => {
  await drawAll(page);
  await openData(page);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await frames(page);
    assert.deepEqual(await accessibility(page), [], colorScheme);
  }
};

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
