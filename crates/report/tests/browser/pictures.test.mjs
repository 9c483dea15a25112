// Charts saved as files by the buttons of a page, without a network.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { drawAll, launch, open } from "./harness.mjs";

const { WRKBENCH_CATALOGUE, WRKBENCH_PAGES } = process.env;
const PNG_SIGNATURE = [0x89, 0x50, 0x4e, 0x47];

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const on = (file, options, step) => async () => {
  const opened = await open(browser, file, { acceptDownloads: true, ...options });
  try {
    await drawAll(opened.page);
    await step(opened.page);
    assert.deepEqual(opened.wrongs, []);
  } finally {
    await opened.close();
  }
};

// The file that a button of a chart saves.
const saved = async (page, id, kind) => {
  const waiting = page.waitForEvent("download");
  await page.locator(`#${id} .save button`, { hasText: kind }).click();
  const download = await waiting;
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
};

// The file that the SVG button offers, without a download: Chromium drops the eleventh of a page within a moment.
const offered = (page, id) =>
  page.evaluate(async (id) => {
    const [createObjectURL, click] = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
    const offer = new Promise((done) => {
      let blob = null;
      URL.createObjectURL = (one) => createObjectURL.call(URL, (blob = one));
      HTMLAnchorElement.prototype.click = function () {
        done({ name: this.download, blob });
      };
    });
    document.querySelector(`#${CSS.escape(id)} .save button`).click();
    const { name, blob } = await offer;
    Object.assign(URL, { createObjectURL });
    Object.assign(HTMLAnchorElement.prototype, { click });
    return { name, text: await blob.text() };
  }, id);

// What keeps an SVG from being a picture on its own; and its words.
const judged = (page, text) =>
  page.evaluate((svg) => {
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml");
    const wrongs = [...parsed.querySelectorAll("parsererror, script, style, image, foreignObject, [href], [class]")].map(({ outerHTML }) => outerHTML.slice(0, 200));
    for (const word of ["NaN", "undefined", "Infinity", "var("]) if (svg.includes(word)) wrongs.push(word);
    if (/url\((?!#)/.test(svg)) wrongs.push("url");
    return { wrongs, root: parsed.documentElement.nodeName, words: [...parsed.querySelectorAll("text")].map(({ textContent }) => textContent) };
  }, text);

describe("a chart", () => {
  it("is saved as SVG with its title, names and values, whatever its texts", on(WRKBENCH_CATALOGUE, {}, async (page) => {
    const ids = await page.locator("figure.chart:has(.save)").evaluateAll((all) => all.map(({ id }) => id));
    assert.ok(ids.length > 15, String(ids));
    for (const id of ids) {
      const { name, text } = await offered(page, id);
      assert.equal(name, `${id}.svg`);
      const { wrongs, root, words } = await judged(page, text);
      assert.deepEqual(wrongs, [], id);
      assert.equal(root, "svg", id);
      // What XML cannot have is replaced, which the hostile title has behind its first words.
      const title = await page.locator(`#${id} h3`).textContent();
      assert.ok(words[0].startsWith(title.slice(0, 40)), `${id}: ${words[0].slice(0, 80)}`);
      assert.ok(words.length > 4, id);
    }
  }));

  it("is saved as it is shown: without hidden marks, in the theme of the page", on(WRKBENCH_CATALOGUE, { colorScheme: "dark" }, async (page) => {
    const svg = async () => (await saved(page, "percentiles", "SVG")).bytes.toString();
    const all = await svg();
    const ground = await page.evaluate(() => Theme.colors().surface);
    assert.ok(all.includes(`fill="${ground}"`), ground);
    await page.locator("#percentiles").getByRole("button", { name: "response time", exact: true }).click();
    const fewer = await svg();
    assert.ok(fewer.length < all.length);
    assert.ok(all.includes(">response time</text>") && !fewer.includes(">response time</text>"));
    await page.emulateMedia({ colorScheme: "light" });
    assert.ok(!(await svg()).includes(`fill="${ground}"`));
  }));

  it("is saved as PNG of twice the size, with its marks in their colours", on(`${WRKBENCH_PAGES}/sweep.html`, {}, async (page) => {
    const { name, bytes } = await saved(page, "levels-0", "PNG");
    assert.equal(name, "levels-0.png");
    assert.deepEqual([...bytes.subarray(0, 4)], PNG_SIGNATURE);
    assert.equal(bytes.readUInt32BE(16), 1920);
    const found = await page.evaluate(async (base64) => {
      const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))]));
      const canvas = Object.assign(document.createElement("canvas"), { width: picture.width, height: picture.height });
      const context = canvas.getContext("2d");
      context.drawImage(picture, 0, 0);
      const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
      const wanted = Theme.colors().series[0].match(/\d+/g).map(Number);
      let pixels = 0;
      for (let at = 0; at < data.length; at += 4) if (wanted.every((value, channel) => Math.abs(data[at + channel] - value) <= 20)) pixels += 1;
      return pixels;
    }, bytes.toString("base64"));
    assert.ok(found > 100, String(found));
  }));

  it("has buttons that a keyboard reaches and that say what they save", on(`${WRKBENCH_PAGES}/run.html`, {}, async (page) => {
    const buttons = page.locator("#latency-by-percentile .save button");
    const names = await buttons.evaluateAll((all) => all.map((button) => button.getAttribute("aria-label")));
    assert.deepEqual(names, ["Save as SVG: Latency by percentile", "Save as PNG: Latency by percentile"]);
    const waiting = page.waitForEvent("download");
    await buttons.first().focus();
    await page.keyboard.press("Enter");
    assert.equal((await waiting).suggestedFilename(), "latency-by-percentile.svg");
  }));
});
