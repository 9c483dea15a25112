// Pages of real runs by `wrkbench report`: one run with errors, several runs, an experiment of 35 runs with
// telemetry.

import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { drawAll, drawnMarks, expectAccessible, frames, launch, open, overflow, screenshots } from "./harness.mjs";

const { WRKBENCH_PAGES } = process.env;
const BYTES_MAX = 3_000_000;
// Number of loads for the printed load times.
const LOADS = 5;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

// The least number of charts with marks on each page.
const PAGES = { run: 8, runs: 4, sweep: 6, tokens: 12 };

for (const [name, charts] of Object.entries(PAGES)) {
  const file = `${WRKBENCH_PAGES}/${name}.html`;

  const on = (options, step) => async (context) => {
    const opened = await open(browser, file, options);
    try {
      await step(opened.page, context);
      assert.deepEqual(opened.wrongs, []);
    } finally {
      await opened.close();
    }
  };

  describe(`the page ${name}.html`, () => {
    it("is small, opens, and draws its charts", on({}, async (page, context) => {
      const bytes = statSync(file).size;
      assert.ok(bytes < BYTES_MAX, `${bytes} bytes`);
      // Printed, not checked: it depends on the load of the machine.
      const loads = [];
      for (let time = 0; time < LOADS; time += 1) {
        await page.reload();
        loads.push(await page.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd));
      }
      loads.sort((a, b) => a - b);
      await drawAll(page);
      const found = await drawnMarks(page);
      const drawn = found.filter(({ marks }) => marks.some(({ pixels }) => pixels > 0));
      context.diagnostic(`${(bytes / 1024).toFixed(0)} KB, loaded after ${loads.map((ms) => ms.toFixed(0)).join(", ")} ms, ${drawn.length} of ${found.length} charts have marks`);
      assert.ok(drawn.length >= charts, `${drawn.length} charts have marks`);
      for (const { title, marks, words } of found) {
        const isDrawn = marks.some(({ pixels }) => pixels > 0);
        assert.ok(isDrawn || /Nothing was measured/.test(words), `${title}: neither drawn nor said why not`);
      }
    }));

    if (name === "tokens") {
      it("has a named point for each setting that the arrow keys read", on({}, async (page) => {
        await drawAll(page);
        const figure = page.locator("#capacity-first-token");
        await figure.locator(".plot").focus();
        const read = new Set();
        for (let stop = 0; stop < 6; stop += 1) {
          await page.keyboard.press("ArrowRight");
          read.add(await page.locator("#announcer").textContent());
        }
        for (const level of [1, 4, 16]) assert.ok([...read].some((text) => text.includes(`connections ${level},`)), `${level}: ${[...read].join("\n")}`);
        const marks = (await drawnMarks(page)).filter(({ title }) => /^(First token|Time per token|Good requests)/.test(title));
        assert.equal(marks.length, 4, marks.map(({ title }) => title).join());
        for (const { title, marks: drawn } of marks) assert.ok(drawn.every(({ pixels }) => pixels > 0), title);
      }));
    }

    it("has its heading as title and description of the file", on({}, async (page) => {
      const heading = (await page.locator("h1").innerText()).replaceAll("\u00a0", " ");
      assert.equal(await page.title(), heading);
      assert.equal(await page.locator('meta[name="description"]').getAttribute("content"), heading);
      assert.ok(!/https?:/.test(heading), heading);
    }));

    it("is accessible, light and dark, and fits a phone", on({ viewport: { width: 360, height: 700 } }, async (page) => {
      await expectAccessible(page);
      assert.equal(await overflow(page), 0);
    }));

    it("keeps large numbers on one line and within their frames", on({}, async (page) => {
      for (const width of [1280, 1120, 800, 360]) {
        await page.setViewportSize({ width, height: 900 });
        const wrong = await page.evaluate(() =>
          [...document.querySelectorAll(".figures .value.whole")]
            .filter((value) => {
              const { fontSize, lineHeight } = getComputedStyle(value);
              const lines = value.clientHeight / (Number.parseFloat(lineHeight) || Number.parseFloat(fontSize) * 1.3);
              const isAlone = !value.querySelector(".sign");
              return (isAlone && lines > 1.6) || value.scrollWidth > value.clientWidth + 1;
            })
            .map((value) => value.textContent),
        );
        assert.deepEqual(wrong, [], `${width}`);
      }
    }));

    it("draws its charts without scrolling", on({}, async (page) => {
      await page.waitForFunction(() => [...document.querySelectorAll("figure.chart:not([data-drawn])")].every((figure) => figure.closest("details.fold:not([open])")));
      assert.equal(await page.evaluate(() => scrollY), 0);
    }));

    it("prints readable tables", on({ viewport: { width: 718, height: 1000 } }, async (page) => {
      await page.emulateMedia({ media: "print" });
      await frames(page);
      const sizes = await page.evaluate(() => [...document.querySelectorAll("main table")].map((table) => [table.caption.textContent, Number.parseFloat(getComputedStyle(table).fontSize)]));
      const small = sizes.filter(([, size]) => size < 8.5);
      assert.deepEqual(small, []);
      assert.equal(await overflow(page), 0);
    }));

    it("has its pictures taken", on({}, (page) => screenshots(page, name)));
  });
}

describe("a sweep of 35 runs", () => {
  it("is printed on at most eight sheets, without what has a row for each run in a closed section", async () => {
    const { page, wrongs, close } = await open(browser, `${WRKBENCH_PAGES}/sweep.html`);
    try {
      for (const format of ["A4", "Letter"]) {
        const pdf = (await page.pdf({ format, preferCSSPageSize: true })).toString("latin1");
        const sheets = pdf.match(/\/Type\s*\/Page\b/g).length;
        assert.ok(sheets <= 8, `${format}: ${sheets}`);
      }
      await page.emulateMedia({ media: "print" });
      await frames(page);
      const isOpen = (id) => page.locator(`#${id} > details.fold`).evaluate((fold) => fold.open);
      assert.equal(await isOpen("plan"), true);
      assert.equal(await isOpen("load-generator"), false);
      await page.emulateMedia({ media: "screen" });
      await page.evaluate(() => (document.querySelector("#load-generator > details").open = true));
      await page.emulateMedia({ media: "print" });
      assert.equal(await isOpen("load-generator"), true, "what the reader opens is printed");
      assert.deepEqual(wrongs, []);
    } finally {
      await close();
    }
  });
});

describe("the table of tokens", () => {
  it("is not cut at 1280 pixels", async () => {
    const { page, close } = await open(browser, `${WRKBENCH_PAGES}/tokens.html`);
    try {
      await drawAll(page);
      const frame = page.locator('.scroll[aria-label="Numbers of tokens"]');
      const [needed, has] = await frame.evaluate(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth]);
      assert.ok(needed <= has + 1, `${needed} of ${has}`);
    } finally {
      await close();
    }
  });
});

describe("tables of a sweep", () => {
  it("fit with their main columns, and show all with a button", async () => {
    const { page, wrongs, close } = await open(browser, `${WRKBENCH_PAGES}/sweep.html`);
    try {
      for (const width of [1280, 420]) {
        await page.setViewportSize({ width, height: 900 });
        await frames(page);
        const wide = await page.evaluate(() =>
          [...document.querySelectorAll("#verdict .scroll, #effects .scroll, #averages .scroll")].filter((frame) => frame.scrollWidth > frame.clientWidth + 1).map((frame) => frame.getAttribute("aria-label")),
        );
        assert.deepEqual(wide, [], `${width}`);
      }
      const table = page.locator("#averages table").first();
      const heads = () => table.locator("thead th:visible").allInnerTexts();
      assert.deepEqual((await heads()).map((text) => text.trim()), ["connections", "runs", "requests/s", "p50", "p99", "change"]);
      const button = table.getByRole("button", { name: /All columns/ });
      assert.equal(await button.getAttribute("aria-expanded"), "false");
      await button.click();
      assert.ok((await heads()).length > 12);
      assert.equal(await overflow(page), 0);
      await table.getByRole("button", { name: /Fewer columns/ }).click();
      assert.equal((await heads()).length, 6);
      assert.deepEqual(wrongs, []);
    } finally {
      await close();
    }
  });
});
