/* Follows a growing log: asks for the rows after the last one, and appends them to the table of the page.

   The table body has the URL of the next rows (data-follow), and the names and kinds of its columns. Every text is
   inserted as a text node, since it comes from a log and may be hostile. Without this script the page loads itself
   again instead. */
"use strict";

(() => {
  const body = document.querySelector("tbody[data-follow]");
  if (!body) return;

  const MOST_ROWS = 1000;
  const PERIOD_MS = 1000;
  const AFTER_ERROR_MS = 5000;
  const NOTHING = "–";
  const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  const SHORT = { "\t": "\\t", "\r": "\\r" };

  const section = body.closest("section").id;
  const columns = body.dataset.columns.split(",");
  const kinds = body.dataset.kinds.split(",");
  const address = new URL(body.dataset.follow, location.href);

  /* Keep all digits of large whole numbers. */
  function exact(_key, value, context) {
    const isLost = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isLost && context && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  }

  /* Write JSON with the spaces of the page. */
  function json(value) {
    if (typeof value === "bigint") return String(value);
    if (value === null || typeof value !== "object") return JSON.stringify(value);
    if (Array.isArray(value)) return "[" + value.map(json).join(", ") + "]";
    return "{" + Object.entries(value).map(([name, one]) => JSON.stringify(name) + ": " + json(one)).join(", ") + "}";
  }

  /* Escape control characters, bidirectional controls, lone surrogates and other characters without a shape. */
  function escaped(text) {
    return text.replace(/[\p{C}\p{Zl}\p{Zp}\p{Zs}]/gu, (one) => {
      if (one === " " || one === "\n") return one;
      if (SHORT[one]) return SHORT[one];
      const hex = one.codePointAt(0).toString(16);
      if (hex.length <= 2) return "\\x" + hex.padStart(2, "0");
      return hex.length <= 4 ? "\\u" + hex.padStart(4, "0") : "\\U" + hex.padStart(8, "0");
    });
  }

  function grouped(value) {
    return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  function size(value) {
    if (value < 1024) return grouped(value) + " bytes";
    let unit = -1;
    for (; value >= 1024 && unit < UNITS.length - 1; unit += 1) value /= 1024;
    return value.toFixed(1) + " " + UNITS[unit];
  }

  function time(value) {
    const moment = new Date(value);
    if (value === -1) return NOTHING;
    if (Number.isNaN(moment.getTime()) || moment.getUTCFullYear() > 9999) return String(value);
    return moment.toISOString().replace("T", " ").replace("Z", " UTC");
  }

  function shown(value, kind) {
    if (value === null || value === undefined) return NOTHING;
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value === "number") {
      if (kind === "bytes") return size(value);
      if (kind === "time") return time(value);
      return kind === "number" ? grouped(value) : String(value);
    }
    if (typeof value === "string") return escaped(value);
    if (typeof value === "bigint") return kind === "number" ? grouped(value) : String(value);
    if (kind !== "data" && Array.isArray(value)) return value.length ? escaped(value.join(", ")) : NOTHING;
    return escaped(json(value));
  }

  function cell(row, column, kind) {
    const element = document.createElement("td");
    if (["number", "bytes", "percent"].includes(kind)) element.className = "right";
    let inner = document.createElement("bdi");
    inner.textContent = shown(row[column], kind);
    if (kind === "code" || kind === "data" || kind === "hex") {
      const outer = document.createElement(kind === "code" ? "code" : "span");
      if (kind !== "code") outer.className = kind;
      outer.append(inner);
      inner = outer;
    }
    if (column === columns[0] && typeof row.url === "string" && /^\/(?!\/)/.test(row.url)) {
      const link = document.createElement("a");
      link.href = row.url;
      link.append(inner);
      inner = link;
    }
    element.append(inner);
    return element;
  }

  function append(rows) {
    const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 60;
    for (const old of body.querySelectorAll("tr.new")) old.className = "";
    for (const row of rows) {
      const element = document.createElement("tr");
      element.className = "new";
      columns.forEach((column, number) => element.append(cell(row, column, kinds[number])));
      body.append(element);
    }
    while (body.rows.length > MOST_ROWS) body.rows[0].remove();
    if (isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
  }

  const tools = document.createElement("p");
  tools.className = "tools follow";
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", "false");
  button.textContent = "Pause";
  const state = document.createElement("span");
  state.setAttribute("role", "status");
  state.setAttribute("aria-live", "polite");
  state.textContent = "Waiting for new records.";
  tools.append(button, state);
  body.closest(".scroll").before(tools);

  let isPaused = false;
  let count = 0;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.setAttribute("aria-pressed", String(isPaused));
    button.textContent = isPaused ? "Continue" : "Pause";
    state.textContent = isPaused ? "Paused." : "Waiting for new records.";
  });

  function say(text) {
    if (state.textContent !== text && !isPaused) state.textContent = text;
  }

  async function poll() {
    const response = await fetch(address, { headers: { Accept: "application/json" }, redirect: "error" });
    if (response.status === 202) return PERIOD_MS;
    if (!response.ok) {
      say(`The records cannot be read (${response.status}). Trying again.`);
      return AFTER_ERROR_MS;
    }
    const report = JSON.parse(await response.text(), exact);
    const rows = report.sections[section].rows;
    const next = String(report.facts.next_offset);
    const isMore = next !== address.searchParams.get("start") && next !== String(report.facts.end_offset);
    address.searchParams.set("start", next);
    if (rows.length) {
      append(rows);
      count += rows.length;
      say(`${grouped(count)} new records; the next offset is ${grouped(next)}.`);
    }
    return isMore ? 50 : PERIOD_MS;
  }

  async function run() {
    let wait = PERIOD_MS;
    if (!isPaused && !document.hidden) {
      try {
        wait = await poll();
      } catch {
        wait = AFTER_ERROR_MS;
        say("The inspector cannot be reached. Trying again.");
      }
    }
    setTimeout(run, wait);
  }

  setTimeout(run, PERIOD_MS);
})();
