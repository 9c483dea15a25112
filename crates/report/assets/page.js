"use strict";
// Starts all parts of the page: theme, contents, tables, copy buttons, charts, printing.

(() => {
  const COPIED_MS = 1500;

  const copy = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    throw new Error("no clipboard");
  };

  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };

  const startCopying = () => {
    for (const block of document.querySelectorAll(".code")) {
      const code = block.querySelector("code");
      const label = block.querySelector(".code-label").textContent;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", `Copy: ${label}`);
      button.addEventListener("click", async () => {
        try {
          await copy(code.textContent);
          button.textContent = "Copied";
        } catch {
          // Browsers may deny the clipboard to a local file: then the text is selected.
          select(code);
          button.textContent = "Selected";
        }
        setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
      });
      block.append(button);
    }
  };

  // Marks the current section in the table of contents.
  const startContents = () => {
    const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
    const visible = new Set();
    const sections = [...document.querySelectorAll("main > section")];
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) visible.add(target.id);
          else visible.delete(target.id);
        }
        const current = sections.find(({ id }) => visible.has(id));
        for (const [id, link] of links) {
          if (current && id === current.id) link.setAttribute("aria-current", "true");
          else link.removeAttribute("aria-current");
        }
      },
      { rootMargin: "-80px 0px -55% 0px" },
    );
    for (const section of sections) observer.observe(section);
    const open = () => {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      const fold = target && (target.querySelector(":scope > details.fold") || target.closest("details.fold"));
      if (fold) fold.open = true;
    };
    addEventListener("hashchange", open);
    // A link to the current section does not change the hash.
    for (const link of links.values()) link.addEventListener("click", () => setTimeout(open));
    open();
  };

  // A folded section with more rows and warnings is printed only if the reader has opened it: it has some for
  // each run, and would fill most of the paper.
  const PRINTED_MAX = 30;

  // For printing, short sections are opened and all charts drawn.
  const startPrinting = () => {
    let opened = [];
    let isOn = false;
    const begin = () => {
      if (isOn) return;
      isOn = true;
      document.documentElement.dataset.print = "";
      const isShort = (fold) => fold.querySelectorAll("tbody tr, .finding, .finding li").length <= PRINTED_MAX;
      opened = [...document.querySelectorAll("details.fold:not([open])")].filter(isShort);
      for (const fold of opened) fold.open = true;
      Chart.drawAll();
      Theme.changed();
      Chart.print(true);
    };
    const end = () => {
      for (const fold of opened) fold.open = false;
      opened = [];
      isOn = false;
      delete document.documentElement.dataset.print;
      Chart.print(false);
      Theme.changed();
    };
    addEventListener("beforeprint", begin);
    addEventListener("afterprint", end);
    const media = matchMedia("print");
    media.addEventListener("change", () => (media.matches ? begin() : end()));
  };

  Theme.start();
  startContents();
  startCopying();
  Tables.start();
  Chart.start();
  startPrinting();
})();
