/* Loads a page again that asks for it: every data-reload seconds the new content takes the place of the old one, and
   the reader's place on the page stays. It waits while the page is hidden, text is selected, or a form has the focus.
   Without this script the browser loads the whole page again. */
"use strict";

(() => {
  const AFTER_ERROR_SECONDS = 5;
  let seconds = Number(document.body.dataset.reload);

  function isBusy() {
    const focus = document.activeElement;
    return document.hidden || String(getSelection()) || (focus && focus.closest("form"));
  }

  async function load() {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    const content = next.querySelector("main");
    if (!content) return;
    if (next.querySelector('script[src="/static/follow.js"]')) {
      location.reload(); // the script of that page must run
      return;
    }
    const focused = document.activeElement && document.activeElement.closest("[id]");
    const places = [...document.querySelectorAll("main .scroll, main .picture")].map((one) => one.scrollLeft);
    document.querySelector("main").replaceWith(document.adoptNode(content));
    [...document.querySelectorAll("main .scroll, main .picture")].forEach((one, number) => {
      one.scrollLeft = places[number] || 0;
    });
    document.title = next.title;
    if (focused && focused !== document.body) document.getElementById(focused.id)?.focus({ preventScroll: true });
    document.body.dataset.reload = next.body.dataset.reload ?? "";
    seconds = Number(document.body.dataset.reload);
  }

  async function run() {
    if (!isBusy()) {
      try {
        await load();
      } catch {
        seconds = AFTER_ERROR_SECONDS;
      }
    }
    if (seconds > 0) setTimeout(run, seconds * 1000);
  }

  if (seconds > 0) setTimeout(run, seconds * 1000);
})();
