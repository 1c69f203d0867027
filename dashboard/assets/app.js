// Copying, local times, and when the overview asks for news. Pages work without this file.
(() => {
  "use strict";

  // Copy buttons are hidden until there is something to make them work.
  const ready = (root) => {
    for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
  };

  // A time of day gets the reader's own beside it. The page's stays, and is UTC.
  const two = (n) => String(n).padStart(2, "0");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  const localTimes = () => {
    for (const time of document.querySelectorAll("time[datetime]:not([data-local])")) {
      time.dataset.local = "";
      const at = new Date(time.dateTime);
      if (isNaN(at) || !/\d:\d\d/.test(time.textContent)) continue;
      if (!at.getTimezoneOffset()) continue; // the same
      const day = at.getDate() === at.getUTCDate() ? "" : at.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + ", ";
      const local = document.createElement("span");
      local.className = "local";
      local.textContent = `${day}${two(at.getHours())}:${two(at.getMinutes())} local`;
      time.title = `${time.title}; ${at.toLocaleString()} (${zone})`;
      time.after(" ", local);
    }
    const named = document.getElementById("local-zone");
    if (named && !named.textContent && new Date().getTimezoneOffset()) named.textContent = `; local ones are those of ${zone}`;
  };

  const say = (text) => {
    const status = document.getElementById("status");
    if (status) status.textContent = text;
  };

  const select = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    if (!source) return;
    const name = button.dataset.name || button.textContent;
    button.dataset.name = name;
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
    } catch {
      select(source); // no clipboard on this connection: the text is marked instead
      done = "Selected";
    }
    button.textContent = done;
    say(done);
    setTimeout(() => { button.textContent = name; }, 1800);
  });

  // A page nobody looks at asks for nothing; it catches up when it is seen again.
  const feed = () => document.querySelector("[data-live]");
  const show = (state, text) => {
    const mark = document.getElementById("live-state");
    if (!mark || mark.dataset.state === state) return;
    mark.dataset.state = state;
    mark.textContent = text;
  };
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.target.closest("[data-live]")) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && feed() && window.htmx) window.htmx.trigger(feed(), "seen");
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.target.closest("[data-live]")) return;
    if (event.detail.successful) show("on", "Live");
    else show("paused", "Not reachable, trying again");
  });
  // The chart tells of a day in a line of text, under the pointer or by the arrow keys.
  const chart = () => document.querySelector("[data-chart]");
  let day = -1; // of those shown; -1: none
  const slots = () => [...chart().querySelectorAll("g")];
  const tell = (n, aloud) => {
    const out = document.getElementById("read-out");
    if (!out) return;
    const all = slots();
    day = n < 0 ? -1 : Math.min(n, all.length - 1);
    for (const [i, g] of all.entries()) g.classList.toggle("on", i === day);
    out.setAttribute("aria-live", aloud ? "polite" : "off");
    out.textContent = day < 0 ? "" : all[day].dataset.text;
  };
  const draw = () => {
    if (!chart()) return;
    for (const g of slots()) {
      const title = g.querySelector("title");
      if (!title) continue;
      g.dataset.text = title.textContent;
      title.remove(); // the line of text takes its place
    }
    document.getElementById("read-out").hidden = false;
    tell(day, false);
  };
  document.addEventListener("pointerover", (event) => {
    const g = event.target.closest("[data-chart] g");
    if (g) tell(slots().indexOf(g), false);
  });
  document.addEventListener("pointerout", (event) => {
    if (event.target.closest("[data-chart]") && !event.relatedTarget?.closest?.("[data-chart]") && document.activeElement !== chart()) tell(-1, false);
  });
  document.addEventListener("focusin", (event) => {
    if (event.target === chart() && day < 0) tell(slots().length - 1, true);
  });
  document.addEventListener("focusout", (event) => {
    if (event.target === chart() && chart().isConnected) tell(-1, false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target !== chart()) return;
    const to = { ArrowLeft: Math.max(0, day - 1), ArrowRight: day + 1, Home: 0, End: Infinity, Escape: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    tell(to, true);
  });

  // News replaces parts of the page. What was opened or scrolled in them stays so.
  let kept = [];
  document.addEventListener("htmx:beforeSwap", () => {
    kept = [];
    for (const details of document.querySelectorAll("details[id][open]")) kept.push(() => { const now = document.getElementById(details.id); if (now) now.open = true; });
    for (const box of document.querySelectorAll(".scroll[id]")) {
      const { id, scrollTop } = box;
      if (scrollTop) kept.push(() => { const now = document.getElementById(id); if (now) now.scrollTop = scrollTop; });
    }
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    for (const restore of kept.splice(0)) restore();
    ready(event.target);
    localTimes();
    draw();
  });
  ready(document);
  localTimes();
  draw();

  // The secret of a link is behind the #, which browsers keep from servers. It leaves the address bar.
  const takeLink = () => {
    const typed = document.getElementById("link-typed");
    const secret = location.hash.slice(1);
    if (!typed || !secret) return;
    document.getElementById("link").value = secret;
    typed.hidden = true;
    history.replaceState(null, "", location.pathname);
    const button = document.getElementById("link-button");
    button.focus();
    if ("press" in button.dataset) button.form.requestSubmit(button); // it only shows something
  };
  addEventListener("hashchange", takeLink);
  takeLink();
})();
