"use strict";
(() => {
  const form = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const keys = ["filter", "kernel", "abi", "map", "helper"];
  const split = (text) => text.split(", ");
  const rows = [...document.querySelectorAll(".claims tbody tr")].map((row) => ({
    row,
    filter: [row.dataset.v],
    kernel: [row.cells[1].textContent],
    abi: [row.cells[2].textContent],
    map: split(row.cells[3].textContent),
    helper: [row.cells[4].textContent],
    text: row.textContent.toLowerCase(),
    name: row.cells[5].querySelector("code").textContent,
    links: [...row.querySelectorAll(".links a")].map((link) => link.hash.slice(1)),
  }));
  const counters = [...document.querySelectorAll(".grid td[data-r] [data-v], .total [data-v]")].map((span) => {
    const cell = span.closest("td");
    const table = span.closest("table");
    const where = cell ? [table.dataset.rows, cell.dataset.r, table.dataset.columns, cell.dataset.c] : null;
    const number = span.querySelector("b");
    return { span, number, whole: number.textContent, verdict: span.dataset.v, where };
  });
  const places = [...document.querySelectorAll(".cex li[data-n]")];
  const marked = [...document.querySelectorAll(".cex, .program")];

  function wanted() {
    const found = {};
    for (const key of [...keys, "text"]) {
      const value = form.elements[key].value.trim();
      if (value) found[key] = value;
    }
    return found;
  }

  function apply() {
    const now = wanted();
    const set = Object.keys(now).length > 0;
    const text = (now.text || "").toLowerCase();
    const counts = new Map();
    const linked = new Set();
    const names = new Set();
    let left = 0;
    for (const one of rows) {
      const fits = keys.every((key) => !now[key] || one[key].includes(now[key])) && one.text.includes(text);
      one.row.hidden = !fits;
      if (!fits) continue;
      left += 1;
      names.add(one.name);
      for (const link of one.links) linked.add(link.split("-")[0]);
      if (set) count(counts, one);
    }
    for (const { span, number, whole, verdict, where } of counters) {
      const value = set ? counts.get(JSON.stringify([...(where || []), verdict])) || 0 : whole;
      number.textContent = value;
      span.hidden = Number(value) === 0;
    }
    for (const one of marked) one.hidden = set && !linked.has(one.id);
    for (const one of places) one.hidden = set && !names.has(one.dataset.n);
    shown.textContent = set ? `${left} of ${rows.length} claims` : "";
    const claims = document.querySelector("#claims details");
    if (set && left > 0) claims.open = true;
    return now;
  }

  function count(counts, one) {
    const add = (...key) => {
      const name = JSON.stringify(key);
      counts.set(name, (counts.get(name) || 0) + 1);
    };
    const verdict = one.filter[0];
    add(verdict);
    add("kernel", one.kernel[0], "abi", one.abi[0], verdict);
    for (const map of new Set(one.map)) add("map", map, "helper", one.helper[0], verdict);
  }

  function remember() {
    const now = apply();
    const parts = Object.entries(now).map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
    history.replaceState(null, "", `#${parts.join("&")}`);
  }

  function read() {
    const fragment = location.hash.slice(1);
    if (!fragment.includes("=")) {
      reveal(fragment);
      return;
    }
    form.reset();
    for (const part of fragment.split("&")) {
      const at = part.indexOf("=");
      const field = form.elements[part.slice(0, at)];
      if (!field || !("value" in field)) continue;
      try {
        field.value = decodeURIComponent(part.slice(at + 1));
      } catch {
        field.value = "";
      }
    }
    apply();
  }

  function reveal(name) {
    const found = name && document.getElementById(name);
    if (!found) return;
    for (let one = found; one; one = one.parentElement) {
      if (one.tagName === "DETAILS") one.open = true;
      one.hidden = false;
    }
    found.scrollIntoView();
  }

  function zooming(canvas) {
    const picture = canvas.querySelector("svg");
    const wide = picture.viewBox.baseVal.width;
    const high = picture.viewBox.baseVal.height;
    let scale = 1;
    const zoom = (factor) => {
      const middle = (canvas.scrollLeft + canvas.clientWidth / 2) / scale;
      const level = (canvas.scrollTop + canvas.clientHeight / 2) / scale;
      scale = Math.min(8, Math.max(0.05, factor));
      picture.setAttribute("width", wide * scale);
      picture.setAttribute("height", high * scale);
      canvas.scrollLeft = middle * scale - canvas.clientWidth / 2;
      canvas.scrollTop = level * scale - canvas.clientHeight / 2;
    };
    const fit = () => zoom(Math.min(canvas.clientWidth / wide, (0.78 * window.innerHeight) / high, 1));
    const entry = picture.querySelector(".n text");
    const home = () => {
      canvas.scrollLeft = entry ? Number(entry.getAttribute("x")) * scale - canvas.clientWidth / 2 : 0;
    };
    canvas.closest("details").addEventListener("toggle", home, { once: true });
    home();
    const actions = {
      "+": () => zoom(scale * 1.25),
      "=": () => zoom(scale * 1.25),
      "-": () => zoom(scale / 1.25),
      0: () => zoom(1),
      f: fit,
    };
    const bar = document.createElement("div");
    bar.className = "zoom";
    for (const [sign, key, name] of [
      ["+", "+", "Larger"],
      ["−", "-", "Smaller"],
      ["1:1", "0", "Full size"],
      ["fit", "f", "Whole graph"],
    ]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = sign;
      button.title = `${name} (key ${key})`;
      button.setAttribute("aria-label", name);
      button.addEventListener("click", actions[key]);
      bar.append(button);
    }
    bar.append("drag, or arrow keys, to move");
    canvas.before(bar);
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(scale * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!canvas.hasPointerCapture(event.pointerId)) return;
      canvas.scrollLeft -= event.movementX;
      canvas.scrollTop -= event.movementY;
    });
  }

  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of folded) one.open = false;
  });
  form.hidden = false;
  form.addEventListener("input", remember);
  form.addEventListener("reset", () => setTimeout(remember));
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", read);
  for (const canvas of document.querySelectorAll(".canvas")) zooming(canvas);
  read();
})();
