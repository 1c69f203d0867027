// Copying, and when the overview asks for news. Pages work without this file.
(() => {
  "use strict";

  // Copy buttons are hidden until there is something to make them work.
  const ready = (root) => {
    for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
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
  document.addEventListener("htmx:afterSettle", (event) => ready(event.target));
  ready(document);

  // The secret of a link is behind the #, which browsers keep from servers. It leaves the address bar.
  const takeLink = () => {
    const typed = document.getElementById("link-typed");
    const secret = location.hash.slice(1);
    if (!typed || !secret) return;
    document.getElementById("link").value = secret;
    typed.hidden = true;
    history.replaceState(null, "", location.pathname);
    document.getElementById("link-button").focus();
  };
  addEventListener("hashchange", takeLink);
  takeLink();
})();
