"use strict";
(() => {
  const say = (words) => { document.getElementById("said").textContent = words; };

  // Which voxels: every viewer draws its tiles from one picture a layer.
  const startViewer = async (figure) => {
    const pack = JSON.parse(document.getElementById(figure.dataset.pack).textContent);
    const live = figure.querySelector(".live");
    const stage = figure.querySelector(".stage");
    const handle = figure.querySelector(".handle");
    const volume = figure.querySelector("input.volume");
    const slice = figure.querySelector("input.slice");
    const [width, height] = pack.tile;
    const sprites = new Map();
    for (const image of figure.querySelectorAll("img.sprite")) sprites.set(image.dataset.layer, image);
    const canvases = [...figure.querySelectorAll("canvas.layer")];
    for (const canvas of canvases) { canvas.width = width; canvas.height = height; }

    const short = (value) => Number(value.toPrecision(3)).toString().replace("-", "−");
    const draw = () => {
      const v = Number(volume.value), z = Number(slice.value);
      for (const canvas of canvases) {
        const layer = pack.layers[canvas.dataset.layer];
        const column = Math.min(v, layer.columns - 1);
        const pen = canvas.getContext("2d");
        pen.imageSmoothingEnabled = false;
        pen.drawImage(sprites.get(canvas.dataset.layer), column * width, z * height, width, height, 0, 0, width, height);
        const bar = canvas.closest(".panel")?.querySelector(".bar");
        if (bar) {
          bar.querySelector(".low").textContent = short(layer.low[column]);
          bar.querySelector(".high").textContent = short(layer.high[column]);
        }
      }
      for (const [input, names, shown] of [[volume, pack.volumes, ".volume-name"], [slice, pack.slices, ".slice-name"]]) {
        const name = names[Number(input.value)];
        figure.querySelector(shown).textContent = name;
        input.setAttribute("aria-valuetext", name);
      }
      for (const dot of figure.querySelectorAll(".dot.shown")) dot.classList.toggle("now", Number(dot.dataset.at) === v);
      const now = figure.querySelector(".dot.now");
      if (now) now.parentNode.append(now);
    };

    const buttons = [...figure.querySelectorAll(".choose button")];
    const divide = (percent) => {
      const at = Math.max(0, Math.min(100, percent));
      stage.style.setProperty("--at", `${at}%`);
      handle.setAttribute("aria-valuenow", String(Math.round(at)));
      handle.setAttribute("aria-valuetext", `${Math.round(at)}% before`);
      for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.at) === at));
    };
    const now = () => Number(handle.getAttribute("aria-valuenow"));
    const follow = (event) => {
      const box = stage.getBoundingClientRect();
      divide(100 * (event.clientX - box.left) / box.width);
    };
    let held = false;
    stage.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      held = true;
      stage.setPointerCapture(event.pointerId);
      follow(event);
      handle.focus({ preventScroll: true });
      event.preventDefault();
    });
    stage.addEventListener("pointermove", (event) => { if (held) follow(event); });
    for (const end of ["pointerup", "pointercancel"]) stage.addEventListener(end, () => { held = false; });
    const moves = {
      ArrowLeft: () => now() - 2, ArrowDown: () => now() - 2, ArrowRight: () => now() + 2, ArrowUp: () => now() + 2,
      PageDown: () => now() - 10, PageUp: () => now() + 10, Home: () => 0, End: () => 100,
    };
    handle.addEventListener("keydown", (event) => {
      if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
      divide(moves[event.key]());
      event.preventDefault();
    });
    for (const button of buttons) button.addEventListener("click", () => divide(Number(button.dataset.at)));
    volume.addEventListener("input", draw);
    slice.addEventListener("input", draw);
    for (const dot of figure.querySelectorAll(".dot.shown")) {
      dot.addEventListener("click", () => { volume.value = dot.dataset.at; draw(); });
    }
    live.hidden = false;
    divide(50);
    await Promise.all([...sprites.values()].map((image) => image.decode()));
    draw();
    figure.dataset.ready = "yes";
  };

  // Copying works from a file on disk too, where the clipboard interface may be missing.
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      field.style.position = "fixed";
      field.style.opacity = "0";
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      return done;
    }
  };
  const cellText = (cell) => cell.textContent.replace(/\s+/g, " ").trim().replace(/^−(?=[\d.∞])/, "-");
  const tabbed = (table) => [...table.rows].map((row) => [...row.cells].map(cellText).join("\t")).join("\n") + "\n";
  for (const button of document.querySelectorAll("button.copy")) {
    const label = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.from);
      const text = button.dataset.copy === "table" ? tabbed(source) : source.textContent;
      const done = await copy(text);
      button.textContent = done ? "Copied" : "Press Ctrl+C to copy";
      if (!done) getSelection().selectAllChildren(source);
      say(button.textContent);
      button.focus();
      setTimeout(() => { button.textContent = label; }, 1600);
    });
  }

  // Light and dark follow the system until asked otherwise.
  const theme = document.querySelector("button.theme");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
  theme.hidden = false;
  nameTheme();
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);

  // What scrolls sideways can be reached with the keyboard.
  const reach = () => {
    for (const box of document.querySelectorAll(".scroll, .frame")) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0; else box.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", reach);
  reach();

  for (const figure of document.querySelectorAll(".viewer")) startViewer(figure);
})();
