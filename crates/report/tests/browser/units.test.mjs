// Numbers as text and on axes, without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import vm from "node:vm";

const context = vm.createContext({ Intl });
for (const name of ["units", "scales"]) {
  vm.runInContext(readFileSync(new URL(`../../assets/${name}.js`, import.meta.url), "utf8"), context);
}
const Units = vm.runInContext("Units", context);
const Scales = vm.runInContext("Scales", context);

const axis = (unit, scale = "linear", fromZero = false) => ({ label: "", unit, scale, from_zero: fromZero });
const ticks = (axis, values, min, max, most) => Array.from(Scales.of(axis, values).ticks(min, max, most), ({ text }) => text);

describe("a number", () => {
  for (const [unit, value, words] of [
    ["number", 0.1 + 0.2, "0.3"],
    ["count", 4926090, "4,926,090"],
    ["count", 12345678901234, "12,345,678,901,234"],
    ["microseconds", 0, "0 us"],
    ["microseconds", 387, "387 us"],
    ["microseconds", 1240.5, "1.2405 ms"],
    ["microseconds", 2000000, "2 s"],
    ["seconds", 12.25, "12.25 s"],
    ["requests_per_sec", 164203.4567, "164,203.5 requests/s"],
    ["bytes", 65536, "64 KiB"],
    ["bytes_per_sec", 1536, "1.5 KiB/s"],
    ["percent", 99.9, "99.9 %"],
    ["change_percent", 4.25, "+4.25 %"],
    ["change_percent", -4.25, "\u22124.25 %"],
    ["change_percent", 0, "0 %"],
    ["change_percent", -0, "0 %"],
    ["segments", 10, "10 segments"],
    ["microseconds", null, "unknown"],
    ["microseconds", Number.NaN, "unknown"],
    ["microseconds", Infinity, "unknown"],
  ]) {
    it(`${value} as ${unit} is ${words}`, () => assert.equal(Units.exact(unit, value), words));
  }
});

describe("an axis", () => {
  it("has one size and as many decimals as its steps need", () => {
    assert.deepEqual(ticks(axis("microseconds"), [], 0, 2000, 4), ["0", "0.5 ms", "1.0 ms", "1.5 ms", "2.0 ms"]);
    assert.deepEqual(ticks(axis("requests_per_sec"), [], 0, 160000, 4), ["0", "50k", "100k", "150k"]);
    assert.deepEqual(ticks(axis("change_percent"), [], -5, 5, 4), ["\u22125.0 %", "\u22122.5 %", "0 %", "+2.5 %", "+5.0 %"]);
  });

  it("has bytes in powers of two, times in parts of an hour, and whole counts", () => {
    assert.deepEqual(ticks(axis("bytes"), [], 0, 100 * 1024, 4), ["0", "32 KiB", "64 KiB", "96 KiB"]);
    assert.deepEqual(ticks(axis("seconds"), [], 0, 3600, 4), ["0:00", "15:00", "30:00", "45:00", "1:00:00"]);
    assert.deepEqual(ticks(axis("count"), [], 0, 2, 8), ["0", "1", "2"]);
  });

  it("that is logarithmic leaves out values that are not above zero, and is never empty", () => {
    const log = Scales.of(axis("microseconds", "log"), [0, -1, 100]);
    assert.equal(log.forward(0), null);
    assert.equal(log.forward(-1), null);
    assert.equal(log.forward(100), 2);
    const [min, max] = log.range(2, 2, {});
    assert.ok(max - min > 0.1);
    assert.deepEqual(ticks(axis("microseconds", "log"), [], 2, 4, 20), ["100 us", "200 us", "500 us", "1 ms", "2 ms", "5 ms", "10 ms"]);
    assert.deepEqual(ticks(axis("microseconds", "log"), [], 0, 6, 4), ["1 us", "100 us", "10 ms", "1 s"]);
    assert.ok(ticks(axis("microseconds", "log"), [], 2.1, 2.2, 6).length > 1, "less than a decade has ticks too");
  });

  it("of nines has 90, 99 and 99.9 at equal distances and ends with 100", () => {
    const percents = [0, 50, 90, 99, 99.9, 99.99, 100];
    const nines = Scales.of(axis("percent", "nines"), percents);
    const at = percents.map(nines.forward);
    assert.ok(at[0] === 0);
    for (const power of [1, 2, 3, 4]) assert.ok(Math.abs(at[power + 1] - power) < 1e-9);
    assert.ok(Number.isFinite(at[6]) && at[6] > at[5]);
    assert.equal(nines.forward(100.1), null);
    assert.equal(nines.forward(-1), null);
    assert.deepEqual(ticks(axis("percent", "nines"), percents, 0, at[6], 20), ["0 %", "50 %", "75 %", "90 %", "95 %", "99 %", "99.9 %", "99.99 %", "100 %"]);
    assert.deepEqual(ticks(axis("percent", "nines"), percents, 0, at[6], 5), ["0 %", "90 %", "99 %", "99.9 %", "100 %"]);
  });

  it("with one value, or zeros only, has a range", () => {
    for (const value of [0, 5, -5, 1e12]) {
      const [min, max] = Scales.of(axis("number"), [value]).range(value, value, {});
      assert.ok(min <= value && value <= max && min < max, `${min} to ${max}`);
    }
  });

  it("of percent ends at 100, and one that starts at zero does", () => {
    assert.deepEqual([...Scales.of(axis("percent"), []).range(20, 100, {})][1], 100);
    assert.equal(Scales.of(axis("number", "linear", true), []).range(50, 60, {})[0], 0);
    assert.equal(Scales.of(axis("number"), []).range(1, 60, {})[0], 0, "padding does not reach below zero");
  });
});
